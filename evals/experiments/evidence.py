"""The table `evidence`: evidence scores and costs per case, for recipes of any system.

The rows are cells, which may differ in graph, prompt or voter, and the baseline that takes every sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cases.submissions.archehr import Prediction
from evals.experiments.tables import Costs, PaperTable, made_table
from evals.metrics.text_metric import MetricResources
from evals.scoring.gold import GoldCase, gold_of_run, predictions
from evals.scoring.score import score, score_predictions
from evals.scoring.scored_task import Score, ScoredTask, on_common_cases
from evals.statistics.case_totals import PERCENT, Ratio
from ranking.measures import average_precision_of_scores
from runs.record.folder import Line, RunFolder

ALL_SENTENCES = "all sentences"
"""The baseline that asks no model: all sentences of the note, in its order."""

_AP = "mean AP"
_COLUMNS = {"P": "strict_micro_precision", "R": "strict_micro_recall", "F1": "strict_micro_f1", _AP: _AP}


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """Data of a row.

    Attributes:
        scores: Of subtask 2 of 2026.
        precisions: Average precision by case, of cases with evidence that was ranked; empty where the row
            has no scores of sentences.
        costs: None of the baseline.
    """

    scores: ScoredTask
    precisions: Mapping[str, float]
    costs: Costs | None = None


def evidence_row(run: RunFolder, resources: MetricResources) -> EvidenceRow:
    """Read a run.

    Raises:
        ScoringError: Nothing in it can be scored.
        InputError: Its cases or keys cannot be read.
    """
    gold = gold_of_run(run)
    (scores,) = score_predictions(list(predictions(run)), gold, "2026-2", resources)
    lines = {line["case_id"]: line for line in run.cases() if line["status"] == "done"}
    precisions = {
        id_: precision
        for id_, line in lines.items()
        if id_ in gold and (precision := _average_precision(sentence_scores(line), gold[id_])) is not None
    }
    return EvidenceRow(scores, precisions, _costs(run, lines))


def sentence_scores(line: Line) -> Mapping[str, float]:
    """How strongly a case's line speaks for each sentence; empty where it has labels alone.

    The scores of a ranker that stood alone; the probabilities where the model, by itself or with a ranker,
    gave one of every sentence; else the votes.
    """
    if line.get("ranker_vote") is not None and line["usable_votes"] == 1:
        ranked: Mapping[str, float] = line["ranker_scores"]
        return ranked
    confidence: Mapping[str, float | None] = line.get("label_confidence") or {}
    known = {id_: value for id_, value in confidence.items() if value is not None}
    # If votes have no probabilities, a ranker's would be the only ones.
    told_by_model = line.get("ranker_vote") is None or bool(line.get("model_scores"))
    if told_by_model and known and len(known) == len(confidence):
        return known
    votes: Mapping[str, int] = line.get("vote_counts") or {}
    return {id_: float(count) for id_, count in votes.items()}


def make_evidence_table(rows: Mapping[str, EvidenceRow], gold: Mapping[str, GoldCase]) -> PaperTable | None:
    """Make the table of the rows, by their cells, with the baseline below; None if they share no case."""
    if not rows:
        return None
    baseline = _baseline(gold)
    every = {**rows, ALL_SENTENCES: baseline}
    tasks = on_common_cases({name: _with_precision(row, baseline) for name, row in every.items()})
    if not tasks:
        return None
    columns = dict(_COLUMNS)
    if not any(_AP in task.statistics for task in tasks.values()):
        del columns[_AP]
    costs = {name: row.costs for name, row in every.items()}
    return made_table("evidence", "share", tasks, columns, "F1", baseline=ALL_SENTENCES, costs=costs)


def _baseline(gold: Mapping[str, GoldCase]) -> EvidenceRow:
    labelled = {id_: case for id_, case in gold.items() if case.labels}
    made = [Prediction(id_, evidence=tuple(case.labels or ())) for id_, case in labelled.items()]
    in_order = {
        id_: _average_precision(dict.fromkeys(case.labels or (), 0.0), case) for id_, case in labelled.items()
    }
    return EvidenceRow(
        score("2026-2", made, labelled),
        {id_: precision for id_, precision in in_order.items() if precision is not None},
    )


def _average_precision(scores: Mapping[str, float], gold: GoldCase) -> float | None:
    """Average precision of one case; None without scores or without evidence. Ties keep note order."""
    return average_precision_of_scores([*scores.values()], [id_ in gold.essential for id_ in scores])


def _with_precision(row: EvidenceRow, baseline: EvidenceRow) -> ScoredTask:
    """With average precision, and whether there is one; as a score where every case with evidence has it."""
    task, width = row.scores, len(row.scores.columns)
    added = [
        [PERCENT * row.precisions.get(id_, 0.0), float(id_ in baseline.precisions)] for id_ in task.case_ids
    ]
    wanted = {*task.case_ids} & baseline.precisions.keys()
    is_ranked = bool(wanted) and wanted <= row.precisions.keys()
    return replace(
        task,
        columns=(*task.columns, _AP, "has evidence"),
        matrix=np.hstack([task.matrix, np.asarray(added)]),
        scores=(*task.scores, *([Score(_AP, Ratio(width, width + 1))] if is_ranked else [])),
    )


def _costs(run: RunFolder, lines: Mapping[str, Line]) -> Costs:
    """Means over the cases that are done; processor time over all that were run."""
    manifest = run.manifest
    ended = manifest.counts.done + manifest.counts.failed + manifest.counts.waiting
    times = [session.processor_seconds for session in manifest.sessions]
    known = [seconds for seconds in times if seconds is not None]
    answered = sum(session.calls + session.replayed for session in manifest.sessions)
    return Costs(
        calls=_mean(lines, "calls"),
        input_tokens=_mean(lines, "input_tokens"),
        output_tokens=_mean(lines, "output_tokens"),
        processor_seconds=sum(known) / ended if ended and len(known) == len(times) else None,
        shared=sum(session.replayed for session in manifest.sessions) / answered if answered else 0.0,
    )


def _mean(lines: Mapping[str, Line], name: str) -> float:
    used: Sequence[int] = [line["usage"][name] for line in lines.values()]
    return sum(used) / len(used) if used else 0.0
