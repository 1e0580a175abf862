"""The table `evidence`: how well recipes of any system find evidence, and what each case costs them.

The rows are cells, which may differ in graph, prompt or voter, and the baseline that takes every sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cases.submissions.archehr import Prediction
from evals.experiments.tables import Compared, Costs, PaperTable, TableRow, on_common_cases
from evals.metrics.text_metric import MetricResources
from evals.scoring.gold import GoldCase, gold_of_run, predictions
from evals.scoring.measures import TaskScores, pair_scores
from evals.scoring.score import score
from evals.scoring.scored_tasks import score_predictions
from evals.statistics.bootstrap import Interval, paired_bootstrap
from evals.statistics.case_totals import PERCENT, CaseStatistic, Floats, Ratio
from evals.statistics.sign_flip import holm, swap_test
from ranking.measures import average_precision_of_scores
from runs.record.folder import Line, RunFolder

ALL_SENTENCES = "all sentences"
"""The baseline that asks no model: all sentences of the note, in its order."""

_COLUMNS = {"P": "precision", "R": "recall", "F1": "f1"}
_HEADLINE = "F1"
_AP = "mean AP"


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """What a row is made of.

    Attributes:
        scores: Of subtask 2 of 2026.
        precisions: Average precision by case, of cases with evidence that was ranked; empty where the row
            has no scores of sentences.
        costs: None of the baseline.
    """

    scores: TaskScores
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
    # Beside votes without probabilities a ranker's would stand alone.
    told_by_model = line.get("ranker_vote") is None or bool(line.get("model_scores"))
    if told_by_model and known and len(known) == len(confidence):
        return known
    votes: Mapping[str, int] = line.get("vote_counts") or {}
    return {id_: float(count) for id_, count in votes.items()}


def make_evidence_table(rows: Mapping[str, EvidenceRow], gold: Mapping[str, GoldCase]) -> PaperTable | None:
    """Make the table of the rows that are scored, with the baseline below them.

    Differences are to the first row and to the baseline; their p-values are corrected for the number of rows
    (Holm 1979), each of the two columns by itself.

    Args:
        rows: By the names of their cells, in order.
        gold: The key by case id.

    Returns:
        None where no row, or no case in all of them, is scored.
    """
    if not rows:
        return None
    every = {**rows, ALL_SENTENCES: _baseline(gold)}
    common = on_common_cases({name: row.scores for name, row in every.items()})
    if not common:
        return None
    made = {name: replace(row, scores=common[name]) for name, row in every.items()}
    matrices = {name: _matrix(row, made[ALL_SENTENCES]) for name, row in made.items()}
    first = next(iter(matrices.values()))
    statistics = _statistics(made[ALL_SENTENCES])
    ranked = {name: _is_ranked(row, made[ALL_SENTENCES]) for name, row in made.items()}
    columns = tuple(column for column in statistics if column != _AP or any(ranked.values()))
    to_first = _compared(first, matrices, statistics[_HEADLINE], next(iter(matrices)))
    to_baseline = _compared(matrices[ALL_SENTENCES], matrices, statistics[_HEADLINE], ALL_SENTENCES)
    made_rows = []
    for name, matrix in matrices.items():
        found = paired_bootstrap(matrix, matrix, list(statistics.values()))
        values: dict[str, Interval | None] = {
            column: one.first for column, one in zip(statistics, found, strict=True)
        }
        if not ranked[name]:
            values[_AP] = None
        made_rows.append(
            TableRow(
                name,
                tuple(values[column] for column in columns),
                to_first.get(name),
                to_baseline.get(name),
                made[name].costs,
            )
        )
    return PaperTable(
        table="evidence",
        unit="share",
        columns=columns,
        rows=tuple(made_rows),
        cases=len(next(iter(common.values())).cases),
        headline=_HEADLINE,
        not_computed={},
        baseline=ALL_SENTENCES,
    )


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
    """Of one case; None without scores of its sentences or without evidence. Equal scores: note order."""
    if not scores or not gold.labels:
        return None
    return average_precision_of_scores([*scores.values()], [id_ in gold.essential for id_ in scores])


def _is_ranked(row: EvidenceRow, baseline: EvidenceRow) -> bool:
    """Whether every case with evidence has its average precision."""
    wanted = {case.case_id for case in row.scores.cases} & baseline.precisions.keys()
    return bool(wanted) and wanted <= row.precisions.keys()


def _matrix(row: EvidenceRow, baseline: EvidenceRow) -> Floats:
    """One row a case: what strict scores sum, average precision, and whether there is one."""
    paired = pair_scores(baseline.scores, row.scores)
    precisions = [
        [PERCENT * row.precisions.get(id_, 0.0), float(id_ in baseline.precisions)] for id_ in paired.case_ids
    ]
    return np.hstack([paired.second, np.asarray(precisions)])


def _statistics(baseline: EvidenceRow) -> dict[str, CaseStatistic]:
    paired = pair_scores(baseline.scores, baseline.scores)
    strict = {measure.name: measure.statistic for measure in paired.measures}
    width = paired.first.shape[1]
    found: dict[str, CaseStatistic] = {
        column: strict[f"strict_micro_{part}"] for column, part in _COLUMNS.items()
    }
    return {**found, _AP: Ratio(width, width + 1)}


def _compared(
    reference: Floats, matrices: Mapping[str, Floats], statistic: CaseStatistic, name: str
) -> dict[str, Compared]:
    """Every other row against one, by name."""
    others = {other: matrix for other, matrix in matrices.items() if other != name}
    differences = [
        paired_bootstrap(reference, matrix, [statistic])[0].difference for matrix in others.values()
    ]
    p_values = holm([swap_test(reference, matrix, [statistic])[0] for matrix in others.values()])
    return {
        other: Compared(*found)
        for other, found in zip(others, zip(differences, p_values, strict=True), strict=True)
    }


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
