"""A case in one row: what a table of cases shows, made of its line, its trace and its key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cases.records import Case
from runs.trace_file import Line


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """One row of a table of cases.

    Attributes:
        position: Of the case in the input, from 0; in the order of ending where the input cannot be read.
        error: Class of the error.
        intent: Primary intent.
        essential: Number of sentences labelled essential.
        votes: Usable votes.
        divided: Number of sentences on which the usable votes differ.
        wrong: Number of sentences whose label differs from the key, supplementary ones counted as not
            essential (strict); None without labels of people in the key, and for a case that a reviewer
            labelled.
        votes_by_count: Number of sentences with 0, 1, ... essential votes.
        route: Names of the nodes in the order of their start.
        seconds: Wall-clock time of the last pass.
        started_at: Of the last pass, in seconds since 1970.
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
    route: tuple[str, ...]
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float | None
    started_at: float | None


def summarise_line(line: Line) -> dict[str, Any]:
    """The fields of a summary that a line of `cases.jsonl` tells."""
    labels, votes = line["labels"], line.get("usable_votes")
    counts = (line.get("vote_counts") or {}).values()
    return {
        "status": line["status"],
        "error": line["error"]["class"] if line["error"] else None,
        "intent": (line.get("intent") or {}).get("primary"),
        "flags": line["flags"],
        "sentences": len(labels),
        "essential": len(essential_of(line)),
        "votes": votes,
        "divided": sum(0 < count < votes for count in counts) if votes else 0,
        "votes_by_count": _by_count(list(counts)),
        "answered": bool(line.get("answer")),
        **{name: line["usage"][name] for name in ("calls", "input_tokens", "output_tokens")},
    }


def essential_of(line: Line) -> list[str]:
    """Ids of the sentences that a line calls essential."""
    return [id_ for id_, label in line["labels"].items() if label == "essential"]


def summarise_pass(lines: Sequence[Line]) -> tuple[tuple[str, ...], float | None, float | None]:
    """The route of a pass, its seconds, and when it started."""
    route = tuple(line["node"] for line in lines if line["node"] != "__end__")
    end = lines[-1] if lines[-1]["node"] == "__end__" else {}
    return route, end.get("seconds"), end.get("started_at")


def essential_by_people(case: Case) -> list[str] | None:
    """Ids of the essential sentences of a key; None where there are no labels, or no people's."""
    if case.gold.labels is None or case.gold.label_source != "gold":
        return None
    return [id_ for id_, label in case.gold.labels.items() if label == "essential"]


def _by_count(counts: Sequence[int]) -> list[int]:
    found = Counter(counts)
    return [found[votes] for votes in range(max(counts, default=-1) + 1)]
