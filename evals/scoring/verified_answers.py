"""How the verified cases of a run ended, and how many sentences of their answers the record supports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from evals.scoring.scored_task import Score, ScoredTask
from evals.statistics.case_totals import PERCENT, CaseStatistic, MeanOf, Ratio
from nodes.verification.support import AnswerStatus, Support
from runs.record.folder import Line, RunFolder

VERIFICATION = "verification"
"""Name of the task, which needs no key."""

_CASES = tuple(f"{status}_cases" for status in get_args(AnswerStatus))
_SENTENCES = tuple(f"{support}_sentences" for support in get_args(Support))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationScores(ScoredTask):
    """Cases by status, and sentences of answers by support, in percent."""

    @property
    def counts(self) -> dict[str, int]:
        """Cases and sentences by what the scores are named after."""
        totals = self.matrix.sum(axis=0)
        columns = dict(zip(self.columns, totals.tolist(), strict=True))
        return {score.name: int(columns[score.name]) for score in self.scores}

    def as_json(self) -> dict[str, Any]:
        return {"task": self.task, **ScoredTask.as_json(self), "counts": self.counts}


def score_verification(run: RunFolder) -> VerificationScores | None:
    """Score the completed cases of a run; None if no status says how their answers were verified.

    Sentences that were removed from an answer are not counted.
    """
    lines = {
        line["case_id"]: line
        for line in run.cases()
        if line["status"] == "done" and _status(line) is not None
    }
    if not any(line.get("answer_status") for line in lines.values()):
        return None
    rows = np.asarray([_row(line) for line in lines.values()], dtype=np.float64)
    statistics: dict[str, CaseStatistic] = {
        name: Ratio(place, len(_CASES)) for place, name in enumerate(_CASES)
    }
    every = len(_CASES) + 1 + len(_SENTENCES)
    if rows[:, every].any():
        statistics |= {name: Ratio(len(_CASES) + 1 + place, every) for place, name in enumerate(_SENTENCES)}
    supported = _SENTENCES[0] in statistics
    return VerificationScores(
        task=VERIFICATION,
        title="verification of answers",
        case_ids=tuple(lines),
        columns=(*_CASES, "cases", *_SENTENCES, "sentences"),
        matrix=rows,
        scores=tuple(Score(name, MeanOf((one,), PERCENT)) for name, one in statistics.items()),
        headline=_SENTENCES[0] if supported else _CASES[0],
        headline_title="sentences supported" if supported else "cases answered",
        # A case that ends as not stated has no sentences.
        case_score=_CASES[0],
    )


def _status(line: Line) -> AnswerStatus | None:
    """An answer without a status was not verified, but its question was found to be answered."""
    status: AnswerStatus | None = line.get("answer_status")
    return status or ("answered" if line.get("answer") else None)


def _row(line: Line) -> list[float]:
    status = _status(line)
    supports: Mapping[Support, int] = Counter(one["support"] for one in line.get("answer_support") or ())
    counts = [supports.get(support, 0) for support in get_args(Support)]
    return [*(float(status == one) for one in get_args(AnswerStatus)), 1.0, *counts, sum(counts)]
