"""ArchEHR-QA: predictions and gold as scored tasks, under the names of the leaderboards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cases.submissions.archehr import Prediction, Task
from cases.submissions.tasks import ARCHEHR
from cases.texts import plural
from evals.metrics.registry import load_metrics, metrics_of, official_metrics, scale_of, score_texts
from evals.metrics.text_metric import MetricResources, MetricSpec, NotComputed, TextPair
from evals.scoring.gold import GoldCase, ScoringError
from evals.scoring.scored_task import Score, ScoredTask
from evals.scoring.tasks import TASKS, Matched, ScoredAs, Variant
from evals.statistics.case_totals import PERCENT, CaseStatistic, Mean, MeanOf, Pooled
from ranking.measures import PARTS, Counts, scores

OVERALL = "overall_score"
AVAILABLE = "mean_of_available"
"""Mean of the available text metrics if the official score lacks one. Not official."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchehrScores(ScoredTask):
    """A task of ArchEHR-QA, in percent.

    Attributes:
        official: Names of the scores that its leaderboard has, in its order.
        extra: Names of further scores to show.
        parts: Scores of the leaderboard without an interval.
        overall: Name of the official overall score; None where a part of it is not computed, or labels are
            weak.
        not_computed: Why a metric is missing, by its name.
    """

    task: Task
    official: tuple[str, ...]
    extra: tuple[str, ...]
    parts: Mapping[str, CaseStatistic]
    overall: str | None
    not_computed: Mapping[str, str] = field(default_factory=dict)

    @property
    def overall_score(self) -> float | None:
        """The official score; None where a metric or a case is missing, which an official scorer refuses."""
        return None if self.unscored or self.overall is None else self.values[self.overall]

    @property
    def official_values(self) -> dict[str, float]:
        """The leaderboard's values and the official score."""
        values, totals = self.values, self.matrix.sum(axis=0)
        found = {name: values[name] for name in self.official}
        found |= {name: float(one.of(totals, len(self.matrix))) for name, one in self.parts.items()}
        return found if self.overall_score is None else {**found, OVERALL: self.overall_score}

    @property
    def shown(self) -> dict[str, float]:
        values = self.values
        return {**self.official_values, **{name: values[name] for name in self.extra}}

    def as_json(self) -> dict[str, Any]:
        values, intervals = self.values, self.intervals() if len(self.case_ids) > 1 else {}
        if self.overall_score is None:
            intervals.pop(OVERALL, None)
        return {
            "task": self.task,
            "scored_cases": len(self.case_ids),
            "unscored_cases": list(self.unscored),
            "values": self.official_values,
            "extra": {name: values[name] for name in self.extra},
            "intervals": {name: [its.low, its.high] for name, its in intervals.items()},
            "mean_of_available": values.get(AVAILABLE),
            "not_computed": dict(self.not_computed),
            "notes": list(self.notes),
        }


def score(
    task: Task,
    predictions: Iterable[Prediction],
    gold: Mapping[str, GoldCase],
    resources: MetricResources | None = None,
    *,
    refuse_unknown: bool = True,
) -> ArchehrScores:
    """Score predictions of one task; `notes` says where labels are weak.

    Cases without gold for the task are left out, and cases without a prediction are named in `unscored`.
    Ids that the key does not have are refused, as by official scorers, or count as wrong, with a note: a run
    may have used longer notes than its key labels.

    Raises:
        ScoringError: No case has both, or an id is rejected.
        InputError: A local checkpoint or index cannot be used.
    """
    wanted = gold_for(task, gold)
    made = [one for one in predictions if TASKS[task].is_made(one)]
    # In the order of the predictions; those of other cases are left out, repeated ones kept.
    matched = [Matched(one, wanted[one.case_id]) for one in made if one.case_id in wanted]
    if not matched:
        raise ScoringError(_nothing(task, made, gold, wanted))
    unknown = list(_unknown_ids(task, matched))
    if unknown and refuse_unknown:
        raise ScoringError(
            f"{unknown[0]}; an official scorer refuses the submission. See every fault:"
            " evigraph validate FILE --key KEY"
        )
    rules = TASKS[task]
    columns = count_columns(rules, [rules.counts(one) for one in matched])
    texts, missing, notes = _texts(task, matched, resources or MetricResources())
    made_ids = [one.made.case_id for one in matched]
    scored = made_task(task, made_ids, {**columns, **texts}, missing, notes)
    scored = replace(scored, unscored=tuple(sorted(wanted.keys() - made_ids)))
    weak = sum(one.gold.weak for one in matched)
    if weak and rules.reads_labels:
        # Nothing may call itself overall then.
        note = f"{weak_note(weak, len(matched))} It has no overall_score."
        scored = replace(scored, parts={}, overall=None, notes=(note, *scored.notes))
    if not unknown:
        return scored
    note = f"Ids that the key does not have count as wrong, in {plural(len(unknown), 'case')}: {unknown[0]}."
    return replace(scored, overall=None, notes=(*scored.notes, note))


def score_predictions(
    made: Sequence[Prediction],
    gold: Mapping[str, GoldCase],
    task: Task | None = None,
    resources: MetricResources | None = None,
) -> list[ArchehrScores]:
    """Score a run's predictions on a task, or on every task that both it and the key cover.

    Raises:
        ScoringError: The one task that is asked for cannot be scored.
    """
    scored = []
    for one in TASKS if task is None else (task,):
        submitted = as_submitted(one, made)
        known = gold_for(one, gold)
        if task is not None or any(each.case_id in known for each in submitted):
            scored.append(score(one, submitted, gold, resources, refuse_unknown=False))
    return scored


def as_submitted(task: Task, made: Iterable[Prediction]) -> list[Prediction]:
    """Predictions as an official scorer reads them: texts truncated at their limit, citations as a set.

    Those that it would refuse, such as an answer of 2025 without a citation, are left out.
    """
    rules = ARCHEHR[task]
    entries = [rules.entry_of(one) for one in made if rules.has_part(one)]
    return [rules.prediction_of(entry) for entry in entries if not rules.form_faults(entry, 1)]


def gold_for(task: Task, gold: Mapping[str, GoldCase]) -> dict[str, GoldCase]:
    """The cases that can be scored for a task; a case without labels is unlabelled, not empty."""
    return {case_id: case for case_id, case in gold.items() if TASKS[task].has_gold(case)}


def weak_note(weak: int, cases: int) -> str:
    """Caution for scores against weak labels."""
    return (
        f"{weak:,} of {plural(cases, 'case')} are scored against weak labels, which were made from"
        " clinicians' answers: not comparable with scores against gold labels."
    )


def made_task(
    task: Task,
    case_ids: Sequence[str],
    columns: Mapping[str, Sequence[float]],
    not_computed: Mapping[str, str],
    notes: tuple[str, ...] = (),
) -> ArchehrScores:
    """A task of its columns: of each variant counts and scores, as `strict correct`; text metrics by name.

    Scores and metrics are in percent; notes are in addition to those of the task.
    """
    rules = TASKS[task]
    texts = {name: Mean(place) for place, name in enumerate(columns) if " " not in name}
    found = [*_count_scores(rules, [*columns]), *(Score(name, mean) for name, mean in texts.items())]
    named: dict[str, CaseStatistic] = {one.name: one.statistic for one in found}
    headline = None if rules.headline is None else named[rules.headline]
    averaged = MeanOf(tuple(texts[name] for name in rules.averaged if name in texts))
    parts: dict[str, CaseStatistic] = {}
    overall = None if rules.averaged else rules.headline
    if rules.averaged and headline is not None:
        parts["overall_factuality_score"] = headline
    if averaged.parts and len(averaged.parts) < len(rules.averaged):
        found.append(Score(AVAILABLE, averaged))
    elif averaged.parts:
        overall = OVERALL
        found.append(Score(OVERALL, averaged if headline is None else MeanOf((headline, averaged))))
        if headline is not None:
            parts["overall_relevance_score"] = averaged
    names = {one.name for one in found}
    of_texts = official_metrics(task)
    return ArchehrScores(
        task=task,
        title=rules.title,
        case_ids=tuple(case_ids),
        columns=tuple(columns),
        matrix=np.asarray([*columns.values()], dtype=np.float64).T,
        scores=tuple(found),
        headline=next((one for one in (OVERALL, rules.headline, AVAILABLE) if one in names), found[0].name),
        official=(
            *_names(rules, [one for one in rules.variants if one.official]),
            *(name for name in texts if name in of_texts),
        ),
        # What no leaderboard has, such as MEDCON over a user's own terms.
        extra=(
            *_names(rules, [one for one in rules.variants if one.extra]),
            *(name for name in texts if name not in of_texts),
        ),
        parts=parts,
        overall=overall,
        not_computed=not_computed,
        notes=rules.notes + notes,
    )


def _count_scores(rules: ScoredAs, columns: Sequence[str]) -> Iterator[Score]:
    """Micro and macro scores of each variant."""
    for variant in rules.variants:
        # Only the long tables have the other year's meaning of lenient.
        main, strict = variant.official, variant.prefix in ("", "strict_")
        # The three counts are adjacent.
        counts = columns.index(f"{variant.name} correct")
        for part in PARTS:
            micro = Pooled(counts, part, rules.empty, PERCENT)
            yield Score(f"{variant.prefix}micro_{part}", micro, main and (strict or part == "f1"))
        for part in PARTS:
            macro = Mean(columns.index(f"{variant.name} {part}"))
            yield Score(f"{variant.prefix}macro_{part}", macro, main and part == "f1")


def _names(rules: ScoredAs, variants: Sequence[Variant]) -> list[str]:
    """`{variant}_{macro|micro}_{precision|recall|f1}`, as the leaderboard orders them."""
    return [
        f"{variant.prefix}{average}_{part}"
        for variant in variants
        for average in rules.averages
        for part in PARTS
    ]


def count_columns(rules: ScoredAs, counted: Sequence[Mapping[str, Counts]]) -> dict[str, Sequence[float]]:
    """Counts of every case and scores in percent, by variant."""
    columns: dict[str, Sequence[float]] = {}
    for variant in rules.variants:
        of_variant = [each[variant.name] for each in counted]
        in_case = [scores(counts, rules.empty) for counts in of_variant]
        for name in Counts._fields:
            columns[f"{variant.name} {name}"] = [getattr(counts, name) for counts in of_variant]
        for part in PARTS:
            columns[f"{variant.name} {part}"] = [PERCENT * getattr(one, part) for one in in_case]
    return columns


def _texts(
    task: Task, matched: Sequence[Matched], resources: MetricResources
) -> tuple[dict[str, list[float]], dict[str, str], tuple[str, ...]]:
    """Every text metric of the task in percent, why others are missing, and notes.

    Metrics that read a source have separate pairs, and need the narrative.
    """
    rules = TASKS[task]
    if rules.pairs is None:
        return {}, {}, ()
    if rules.needs_texts and any(
        one.gold.narrative is None or one.gold.essential_texts is None for one in matched
    ):
        return {}, dict.fromkeys(official_metrics(task), rules.needs_texts), ()
    pairs = [rules.pairs(one) for one in matched]
    sourced = [spec for spec in metrics_of(task) if spec.reads_source]
    plain = [spec for spec in metrics_of(task) if not spec.reads_source]
    scored, missing = _computed(plain, [one.all for one in pairs], resources)
    if all(one.gold.narrative is not None for one in matched):
        its_scored, its_missing = _computed(sourced, [one.with_source for one in pairs], resources)
        scored |= its_scored
        missing |= its_missing
    else:
        for spec in sourced:
            for name in spec.names:
                reader = spec.columns.get(name, name)
                missing[name] = f"needs the case file (--cases FILE): {reader} reads the patient's narrative"
    percent = {name: [scale_of(name) * one for one in values] for name, values in scored.items()}
    order = [name for spec in metrics_of(task) for name in spec.names]
    return percent, {name: missing[name] for name in order if name in missing}, rules.text_notes


def _computed(
    specs: Sequence[MetricSpec], pairs: Sequence[TextPair], resources: MetricResources
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Scores by metric, and the reasons of those that are missing."""
    loaded = load_metrics(specs, resources)
    missing = {name: one.reason for one in loaded if isinstance(one, NotComputed) for name in one.names}
    return score_texts([one for one in loaded if not isinstance(one, NotComputed)], pairs), missing


def _unknown_ids(task: Task, matched: Iterable[Matched]) -> Iterator[str]:
    """Messages on ids that the key lacks, which official scorers reject; one line per case."""
    for made, gold in matched:
        if task == "2026-2":
            yield from _unknown(made.case_id, "sentence", made.evidence or (), gold.labels or {})
        elif task == "2026-4":
            answer_ids = {answer for answer, _ in made.links or ()}
            note_ids = {id_ for _, id_ in made.links or ()}
            yield from _unknown(made.case_id, "answer sentence", answer_ids, gold.answer_ids or ())
            if gold.labels:
                yield from _unknown(made.case_id, "sentence", note_ids, gold.labels)


def _unknown(case_id: str, kind: str, ids: Collection[str], known: Collection[str]) -> Iterator[str]:
    unknown = sorted(set(ids) - set(known))
    if unknown:
        more = f" and {len(unknown) - 1} more" if unknown[1:] else ""
        yield f"case {case_id!r}: the key has no {kind} {unknown[0]!r}{more}"


def _nothing(
    task: Task,
    made: Sequence[Prediction],
    gold: Mapping[str, GoldCase],
    wanted: Mapping[str, GoldCase],
) -> str:
    if not wanted:
        needed = TASKS[task].needs
        return (
            f"none of the {plural(len(gold), 'case')} of the key has {needed}, which {task} is scored against"
        )
    if not made:
        return f"no predictions for {task}; see what the recipe lacks: evigraph submit RUN --task {task}"
    return (
        f"none of the {len(made)} predictions is of a case of the key (such as {made[0].case_id!r} and"
        f" {next(iter(wanted))!r}); give the key of these very cases"
    )
