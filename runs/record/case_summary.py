"""A case as one row of a table of cases, from its line, its trace and its key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cases.records import Case
from cases.texts import plural
from runs.record.trace_file import Line

_CLOSED = ("yes", "no", "unknown")


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """One row of a table of cases.

    Attributes:
        position: Of the case in the input, from 0; in the order of ending where the input cannot be read.
        divided: Number of sentences on which the usable votes differ.
        wrong: Number of sentences whose label differs from the key, supplementary ones counted as not
            essential (strict), and 0 or 1 for a verdict, or yes and no; None without labels of people in the
            key, and for a case that a reviewer labelled.
        votes_by_count: Number of sentences with 0, 1, ... essential votes.
        outcome: Result of the case if it is not sentences: a verdict, yes or no, or the number of exact
            answers; never a text.
        seconds: Wall-clock time of the last pass.
        started_at: Of the last pass, in seconds since 1970.
        corrected: Replies that were usable after one correction.
        incomplete: Replies of which a part was used.
        degraded: Steps that got no usable reply.
    """

    case_id: str
    position: int
    status: str
    error: str | None
    intent: str | None
    flags: tuple[str, ...]
    sentences: int
    essential: int
    votes: int | None
    divided: int
    wrong: int | None
    votes_by_count: tuple[int, ...]
    answered: bool
    outcome: str | None
    route: tuple[str, ...]
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float | None
    started_at: float | None
    corrected: int = 0
    incomplete: int = 0
    degraded: tuple[str, ...] = ()


def summarise_line(line: Line) -> dict[str, Any]:
    """Fields of a summary from a line of `cases.jsonl`."""
    labels, votes = line["labels"], line.get("usable_votes")
    counts = Counter((line.get("vote_counts") or {}).values())
    return {
        "status": line["status"],
        "error": line["error"]["class"] if line["error"] else None,
        "intent": (line.get("intent") or {}).get("primary"),
        "flags": line["flags"],
        "sentences": len(labels),
        "essential": len(essential_of(line)),
        "votes": votes,
        "divided": sum(0 < count < votes for count in counts.elements()) if votes else 0,
        "votes_by_count": [counts[count] for count in range(max(counts, default=-1) + 1)],
        "answered": bool(line.get("answer")),
        "outcome": _outcome(line),
        **{name: line["usage"][name] for name in ("calls", "input_tokens", "output_tokens")},
        **{name: line["usage"].get(name, 0) for name in ("corrected", "incomplete")},
        "degraded": line.get("degraded", []),
    }


def essential_of(line: Line) -> list[str]:
    """Ids of the sentences that a line calls essential."""
    return [id_ for id_, label in line["labels"].items() if label == "essential"]


def summarise_pass(lines: Sequence[Line]) -> tuple[tuple[str, ...], float | None, float | None]:
    """The route of a pass, its seconds, and when it started."""
    route = tuple(line["node"] for line in lines if line["node"] != "__end__")
    end = lines[-1] if lines[-1]["node"] == "__end__" else {}
    return route, end.get("seconds"), end.get("started_at")


Scored = tuple[Literal["labels", "outcome"], list[str]]
"""Scored part of a case or key: ids of essential sentences, or the single outcome."""


def wanted_by_people(case: Case) -> Scored | None:
    """The essential sentences of a key, or else its verdict or yes or no; None without labels of people."""
    if case.gold.labels is not None:
        essential = [id_ for id_, label in case.gold.labels.items() if label == "essential"]
        return ("labels", essential) if case.gold.label_source == "gold" else None
    outcome = case.gold.verdict or case.gold.exact_answer
    return ("outcome", [outcome]) if isinstance(outcome, str) else None


def given_by(line: Line) -> Scored | None:
    """Scored part of a line; None without one."""
    if line["labels"]:
        return "labels", essential_of(line)
    outcome = line.get("verdict") or line.get("exact_answer")
    return ("outcome", [outcome]) if isinstance(outcome, str) else None


def _outcome(line: Line) -> str | None:
    found = line.get("verdict") or line.get("exact_answer")
    if isinstance(found, str):
        # Anything else may be a text of the model's.
        return found if found in _CLOSED else None
    return plural(len(found), "exact answer") if isinstance(found, list) else None
