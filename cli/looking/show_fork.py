"""Differences between a fork and its run: labels, route, answer, and usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from cases.texts import plural, quoted
from cli.terminal import print_facts, safe
from evals.compare.changes import CaseChange, case_change
from evals.compare.outcomes import CaseOutcome, read_outcome
from runs.fork.forks import forks
from runs.record.folder import RunFolder
from runs.record.manifest import ForkedFrom, Session


@dataclass(frozen=True, slots=True)
class ForkSummary:
    """A fork with its original; `inherited` and `new` count the steps of its trace."""

    fork: RunFolder
    forked_from: ForkedFrom
    before: CaseOutcome
    after: CaseOutcome
    change: CaseChange
    inherited: int
    new: int

    @property
    def session(self) -> Session:
        """Session of the fork."""
        return self.fork.manifest.sessions[-1]

    def as_json(self) -> dict[str, Any]:
        """One object for programs."""
        session, change = self.session, self.change
        return {
            "fork": str(self.fork.path),
            "case": self.forked_from.case_id,
            "from": self.forked_from.node,
            "step": self.forked_from.step,
            "changes": self.forked_from.changes,
            "inherited_steps": self.inherited,
            "new_steps": self.new,
            "status": "failed" if self.after.error else "done",
            "error": self.after.error,
            "labels_gained": list(change.added),
            "labels_lost": list(change.removed),
            "route_changed": change.route_changed,
            "route_left": list(change.steps_left),
            "route_taken": list(change.steps_taken),
            "answer_before": self.before.answer,
            "answer_after": self.after.answer,
            "calls": session.calls,
            "input_tokens": session.input_tokens,
            "output_tokens": session.output_tokens,
            "cost": session.cost,
            "next": self.next_commands(),
        }

    def next_commands(self) -> list[str]:
        """Suggested next commands."""
        case_id = self.forked_from.case_id
        return [
            f"evigraph show {quoted(self.fork.path)} {quoted(case_id)}",
            f"evigraph compare {quoted(self.fork.path.parent.parent)} {quoted(self.fork.path)}",
        ]

    def print(self) -> None:
        """For people."""
        session, forked = self.session, self.forked_from
        facts: list[tuple[str, Text | str]] = [
            ("fork", f"case {forked.case_id} from {forked.node}, step {forked.step}"),
            ("changed", "\n".join(_changes(forked))),
            (
                "steps",
                f"{self.inherited} inherited, {self.new} new: {plural(session.calls, 'call')},"
                f" {plural(session.input_tokens, 'token')} read, {session.output_tokens:,} written",
            ),
        ]
        if session.cost is not None:
            facts.append(("cost", f"{session.cost:.4g}"))
        if self.after.error:
            facts.append(("failed", safe(self.after.error, "red")))
        facts += [("labels", self._labels()), ("route", self._route())]
        if self.before.answer == self.after.answer:
            facts.append(("answer", "unchanged" if self.before.answer else "none"))
        else:
            facts.append(("before", self.before.answer or "(no answer)"))
            facts.append(("after", self.after.answer or "(no answer)"))
        print_facts([*facts, ("run", str(self.fork.path)), ("next", "\n".join(self.next_commands()))])

    def _labels(self) -> str:
        if not self.change.same_sentences:
            return "labelled in one of the two only"
        parts = [f"gained {' '.join(self.change.added)}"] if self.change.added else []
        parts += [f"lost {' '.join(self.change.removed)}"] if self.change.removed else []
        return "; ".join(parts) or "unchanged"

    def _route(self) -> str:
        if not self.change.route_changed:
            return "unchanged"
        parts = [f"left {', '.join(self.change.steps_left)}"] if self.change.steps_left else []
        parts += [f"taken {', '.join(self.change.steps_taken)}"] if self.change.steps_taken else []
        return "; ".join(parts) or "the same steps in another number or order"


def summarise_fork(original: RunFolder, fork: RunFolder) -> ForkSummary:
    """Compare a fork that has ended with its original."""
    forked = fork.manifest.forked_from
    assert forked is not None
    before, after = (read_outcome(run, forked.case_id) for run in (original, fork))
    steps = fork.trace(forked.case_id)[:-1]
    inherited = sum(bool(line.get("inherited")) for line in steps)
    change = case_change(before, after, None)
    return ForkSummary(fork, forked, before, after, change, inherited, len(steps) - inherited)


def list_forks(console: Console, run: RunFolder, case_id: str) -> None:
    """One line for each fork of a case."""
    of_case = [
        (fork, forked)
        for fork in forks(run)
        if (forked := fork.manifest.forked_from) is not None and forked.case_id == case_id
    ]
    if not of_case:
        return
    console.print()
    for fork, forked in of_case:
        changed = "; ".join(_changes(forked))
        line = f"fork {fork.path} from {forked.node}, step {forked.step}: {changed}"
        console.print(safe(line if fork.manifest.status == "finished" else f"{line} (not ended)"))


def _changes(forked: ForkedFrom) -> Sequence[str]:
    return [f"{name}: {_shown(old)} -> {_shown(new)}" for name, (old, new) in forked.changes.items()]


def _shown(value: Any) -> str:
    return "(none)" if value is None else str(value)
