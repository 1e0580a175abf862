"""How usable the replies of a run were: retries, corrections, incomplete replies, flags, degraded cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cases.texts import plural

Line = Mapping[str, Any]

DEGRADED = "every case so far is degraded"
"""How the reason begins for which a session has stopped."""

FIRST_CASES = 5
"""Finished cases that all have to be degraded for a run to stop."""

_CORRECTION_TURNS = 2
"""The quoted reply and its fault, which a correction adds to the conversation."""


def reply_fields(calls: Sequence[Line]) -> dict[str, int]:
    """Fields of a case's usage: corrected and incomplete replies, each only if there are any."""
    counts = {
        "corrected": sum(map(_corrects, calls, calls[1:])),
        "incomplete": sum(bool(call.get("incomplete")) for call in calls),
    }
    return {name: count for name, count in counts.items() if count}


def _corrects(call: Line, following: Line) -> bool:
    same_turns = following["prompt"][:-_CORRECTION_TURNS] == call["prompt"]
    return bool(call["fault"]) and following["fault"] is None and same_turns


def degraded_steps(trace: Iterable[Line]) -> list[str]:
    """Names of the nodes whose model replied in a case, but never with a reply that could be used."""
    usable: dict[str, bool] = {}
    for line in trace:
        for call in line["calls"]:
            used = call["fault"] is None or bool(call.get("incomplete"))
            usable[line["node"]] = usable.get(line["node"], False) or used
    return [node for node, any_usable in usable.items() if not any_usable]


@dataclass(slots=True)
class ReplyQuality:
    """Counts over the cases of a run that have ended.

    Attributes:
        retries: Retried requests of all sessions that ended, by error class.
        corrected: Replies that were usable after one correction.
        incomplete: Replies that were still faulty, and of which a part was used.
        degraded: Cases by the step that got no usable reply.
    """

    retries: Mapping[str, int]
    corrected: int = 0
    incomplete: int = 0
    flags: Counter[str] = field(default_factory=Counter)
    degraded: Counter[str] = field(default_factory=Counter)
    degraded_cases: int = 0

    def add(self, flags: Iterable[str], degraded: Sequence[str], corrected: int, incomplete: int) -> None:
        self.flags.update(flags)
        self.degraded.update(degraded)
        self.degraded_cases += bool(degraded)
        self.corrected += corrected
        self.incomplete += incomplete

    def add_line(self, line: Line) -> None:
        usage = line["usage"]
        self.add(
            line["flags"], line.get("degraded", ()), usage.get("corrected", 0), usage.get("incomplete", 0)
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "retries": dict(self.retries),
            "corrected_replies": self.corrected,
            "incomplete_replies": self.incomplete,
            "flags": dict(self.flags.most_common()),
            "degraded": {"cases": self.degraded_cases, "steps": dict(self.degraded.most_common())},
        }

    def rows(self) -> dict[str, str]:
        replies = {"corrected": self.corrected, "incomplete": self.incomplete}
        rows = {
            "retries": _listed(self.retries),
            "replies": _listed({name: count for name, count in replies.items() if count}),
            "flags": _listed(dict(self.flags.most_common())),
        }
        if self.degraded_cases:
            cases = plural(self.degraded_cases, "case")
            rows["degraded"] = f"{cases} with a step that got no usable reply ({_listed(self.degraded)})"
        return {name: text for name, text in rows.items() if text}


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


@dataclass(slots=True)
class FirstCases:
    """Decides whether a session should stop because all cases that it finished first are degraded.

    Attributes:
        in_rounds: Whether models answer in batches. Then all cases of a round decide, ended or not.
        finished: Those that have ended; in rounds, those of this round.
        degraded: Those of them that are degraded, by step.
        passed: Whether a case has ended without degradation, so that the session continues.
    """

    cases: int
    in_rounds: bool
    finished: int = 0
    degraded: Counter[str] = field(default_factory=Counter)
    all_degraded: bool = True
    passed: bool = False

    def begin_round(self) -> None:
        """Count anew: cases that wait for batches run again from their start."""
        self.finished, self.all_degraded = 0, True
        self.degraded.clear()

    def add(self, degraded: Sequence[str], *, ended: bool = True) -> None:
        """Take in a case that has ended, or in rounds how far it has come."""
        if self.passed:
            return
        self.finished += 1
        self.degraded.update(degraded)
        self.all_degraded = self.all_degraded and bool(degraded)
        self.passed = ended and not degraded

    def fault(self) -> str | None:
        """Why the session should stop, or has ended badly; None if it should go on."""
        needed = 1 if self.in_rounds else min(FIRST_CASES, self.cases)
        if self.passed or not self.all_degraded or not 0 < needed <= self.finished:
            return None
        steps = ", ".join(f"{node} in {count:,}" for node, count in self.degraded.most_common())
        return f"{DEGRADED} ({self.finished:,} of {self.finished:,}): no usable reply to {steps}"
