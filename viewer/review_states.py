"""Which cases of a run wait for a person, and which were reviewed; the index of a run knows no reviews."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from runs.case_summary import CaseSummary
from runs.reading import Run
from runs.reviews import Review, Reviews, is_stale
from runs.statuses import WAITING
from runs.trace_file import Line

State = Literal["waiting", "reviewed", "stale"]


@dataclass(frozen=True, slots=True)
class ReviewStates:
    """The state of each case that waits or was reviewed, in input order.

    Attributes:
        of: By case id: `waiting` for labels of a person, `reviewed`, or `stale` where it was reviewed on an
            earlier result.
        version: Another one whenever `of` is.
    """

    of: Mapping[str, State] = field(default_factory=dict)
    version: str = ""

    @property
    def words(self) -> str:
        """How many there are, for people."""
        counts = Counter(self.of.values())
        parts = [f"{counts['waiting']:,} waiting, {counts['reviewed']:,} reviewed"]
        if counts["stale"]:
            parts.append(f"{counts['stale']:,} reviewed on an earlier result")
        return ", ".join(parts) if self.of else "none"


def state_of(line: Line, labels: Review | None, answer: Review | None, newest: Review) -> State:
    """The state of a reviewed case.

    Args:
        line: Of `cases.jsonl`.
        labels: The last review that says something of labels.
        answer: The last one that says something of the answer.
        newest: The last one.
    """
    if line["status"] == WAITING:
        return "reviewed" if labels is not None and not is_stale(labels, line) else "waiting"
    said = [one for one in (labels, answer) if one is not None] or [newest]
    return "stale" if any(is_stale(one, line) for one in said) else "reviewed"


class ReviewReader:
    """The reviews of a run and the states of its cases; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Of the run in this folder."""
        self.reviews = Reviews(path)
        self._known: dict[str, tuple[int, Review, State]] = {}
        self._states: tuple[int, ReviewStates] | None = None

    def states(self, run: Run, summaries: Iterable[CaseSummary], read_at: Mapping[str, int]) -> ReviewStates:
        """The states as they are now; reads the lines of cases that were reviewed or have changed since.

        Args:
            run: Of the same folder.
            summaries: Of all its cases, in input order.
            read_at: Revision with which each of them was read last.

        Raises:
            RunError: The reviews hold something else.
        """
        revision = run.revision
        if self._states is not None and self._states[0] == revision and not self.reviews.changed():
            return self._states[1]
        newest = self.reviews.latest()
        labels, answers = self.reviews.latest("labels"), self.reviews.latest("answer")
        found: dict[str, State] = {}
        for row in summaries:
            id_ = row.case_id
            last = newest.get(id_)
            if last is None:
                if row.status == WAITING:
                    found[id_] = "waiting"
                continue
            known = self._known.get(id_)
            if known is None or known[0] != read_at[id_] or known[1] is not last:
                # Lines of older runs may lack an answer.
                line = {"answer": None} | run.line(id_)
                known = read_at[id_], last, state_of(line, labels.get(id_), answers.get(id_), last)
                self._known[id_] = known
            found[id_] = known[2]
        digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]
        self._states = revision, ReviewStates(found, digest)
        return self._states[1]
