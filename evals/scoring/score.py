"""Scores of a task from predictions and gold, under the names of its leaderboard."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cases.submissions.archehr import Prediction, Task
from cases.texts import plural
from evals.metrics.registry import load_metrics, metrics_of, official_metrics, scale_of, score_texts
from evals.metrics.text_metric import MetricResources, MetricSpec, NotComputed, TextPair
from evals.scoring.gold import GoldCase, ScoringError
from evals.scoring.measures import CaseScores, TaskScores
from evals.scoring.tasks import TASKS, Matched, ScoredAs, Variant
from evals.statistics.case_totals import PERCENT
from ranking.measures import PARTS, Counts, macro, micro


def score(
    task: Task,
    predictions: Iterable[Prediction],
    gold: Mapping[str, GoldCase],
    resources: MetricResources | None = None,
    *,
    refuse_unknown: bool = True,
) -> TaskScores:
    """Score predictions of one task; `notes` says where labels are weak.

    Cases without gold for the task are left out, and cases without a prediction are named in `unscored`.

    Args:
        task: The task.
        predictions: What was predicted.
        gold: The key by case id.
        resources: Local weights and indexes.
        refuse_unknown: Refuse ids that the key does not have, as official scorers do. Otherwise they count as
            wrong, and the notes say so; a run may have been made on longer notes than its key labels.

    Raises:
        ScoringError: No case has both, or an id is refused.
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
    scores = marked_if_weak(_score(task, matched, resources or MetricResources()), matched)
    scores = replace(scores, unscored=tuple(sorted(set(wanted) - {one.made.case_id for one in matched})))
    if not unknown:
        return scores
    note = f"Ids that the key does not have count as wrong, in {plural(len(unknown), 'case')}: {unknown[0]}."
    return replace(scores, overall=None, notes=(*scores.notes, note))


def gold_for(task: Task, gold: Mapping[str, GoldCase]) -> dict[str, GoldCase]:
    """The cases that can be scored for a task; a case without labels is unlabelled, not empty."""
    return {case_id: case for case_id, case in gold.items() if TASKS[task].has_gold(case)}


def marked_if_weak(scores: TaskScores, matched: Sequence[Matched]) -> TaskScores:
    """The same scores, without anything that calls itself overall where a label is weak."""
    weak = sum(one.gold.weak for one in matched)
    if not weak or not TASKS[scores.task].reads_labels:
        return scores
    return replace(
        scores,
        values={name: value for name, value in scores.values.items() if not name.startswith("overall_")},
        overall=None,
        notes=(f"{weak_note(weak, len(matched))} There is no overall_score.", *scores.notes),
    )


def weak_note(weak: int, cases: int) -> str:
    """What a reader must know of scores against weak labels."""
    return (
        f"{weak:,} of {plural(cases, 'case')} are scored against weak labels, which were made from"
        " clinicians' answers: not comparable with scores against gold labels."
    )


@dataclass(frozen=True, slots=True)
class TextScores:
    """Text metrics over the cases.

    Attributes:
        means: By name, 0 to 100.
        by_case: The scores of each pair by name, in the order of the pairs.
        not_computed: Why a metric is missing.
        overall: Mean of the metrics that the task averages; None where one of them is missing.
        available: Mean of those of them that are there; None where none is.
    """

    means: Mapping[str, float]
    by_case: Sequence[Mapping[str, float]]
    not_computed: Mapping[str, str] = field(default_factory=dict)
    overall: float | None = None
    available: float | None = None


def average(
    task: Task, scored: Mapping[str, Sequence[float]], not_computed: Mapping[str, str], count: int
) -> TextScores:
    """Average scores over cases, and metrics over their means.

    Args:
        task: Says which metrics its official score is the mean of.
        scored: Of each metric that is computed the scores of all pairs, in its own unit.
        not_computed: Why the others are not.
        count: Number of pairs.
    """
    # As the official scorers do: first the mean, then the scale. The other order rounds differently.
    scales = {name: scale_of(name) for name in scored}
    means = {name: scales[name] * float(np.mean(values)) for name, values in scored.items()}
    averaged = TASKS[task].averaged
    parts = [means[name] for name in averaged if name in means]
    mean = float(np.mean(parts)) if parts else None
    complete = len(parts) == len(averaged)
    return TextScores(
        means=means,
        by_case=[
            {name: scale_of(name) * values[place] for name, values in scored.items()}
            for place in range(count)
        ],
        not_computed={name: not_computed[name] for name in _names(metrics_of(task)) if name in not_computed},
        overall=mean if complete else None,
        available=None if complete else mean,
    )


def _score(task: Task, matched: Sequence[Matched], resources: MetricResources) -> TaskScores:
    rules = TASKS[task]
    counts = [rules.counts(one) for one in matched]
    values = _leaderboard(rules, [one for one in rules.variants if one.official], counts)
    extra = _leaderboard(rules, [one for one in rules.variants if one.extra], counts)
    headline = None if rules.headline is None else values[rules.headline]
    if rules.pairs is None:
        cases = [CaseScores(one.made.case_id, its) for one, its in zip(matched, counts, strict=True)]
        return TaskScores(task, values, headline, tuple(cases), extra=extra, notes=rules.notes)
    notes = rules.notes
    if rules.needs_texts and any(
        one.gold.narrative is None or one.gold.essential_texts is None for one in matched
    ):
        texts = average(task, {}, dict.fromkeys(official_metrics(task), rules.needs_texts), len(matched))
    else:
        texts = _texts(task, matched, resources)
        notes += rules.text_notes
    overall = texts.overall
    official = official_metrics(task)
    values |= {name: value for name, value in texts.means.items() if name in official}
    # What no leaderboard has, such as MEDCON over a user's own terms.
    extra |= {name: value for name, value in texts.means.items() if name not in official}
    if headline is not None:
        values["overall_factuality_score"] = headline
        if overall is not None:
            values["overall_relevance_score"] = overall
            overall = (headline + overall) / 2
    by_case = zip(matched, counts, texts.by_case, strict=True)
    return TaskScores(
        task,
        values,
        overall,
        tuple(CaseScores(one.made.case_id, its, its_texts) for one, its, its_texts in by_case),
        extra=extra,
        mean_of_available=texts.available,
        not_computed=texts.not_computed,
        notes=notes,
    )


def _leaderboard(
    rules: ScoredAs, variants: Sequence[Variant], counts: Sequence[Mapping[str, Counts]]
) -> dict[str, float]:
    """`{variant}_{macro|micro}_{precision|recall|f1}`, in percent."""
    values: dict[str, float] = {}
    for variant in variants:
        of_variant = [each[variant.name] for each in counts]
        for average_ in rules.averages:
            scores = (macro if average_ == "macro" else micro)(of_variant, rules.empty)
            named = zip(PARTS, scores, strict=True)
            values |= {f"{variant.prefix}{average_}_{part}": PERCENT * value for part, value in named}
    return values


def _texts(task: Task, matched: Sequence[Matched], resources: MetricResources) -> TextScores:
    """Every metric of the task; those that read a source have pairs of their own, and need the narrative."""
    pairs_of = TASKS[task].pairs
    assert pairs_of is not None
    pairs = [pairs_of(one) for one in matched]
    sourced = [spec for spec in metrics_of(task) if spec.reads_source]
    plain = [spec for spec in metrics_of(task) if not spec.reads_source]
    scored, missing = _computed(plain, [one.all for one in pairs], resources)
    if all(one.gold.narrative is not None for one in matched):
        its_scored, its_missing = _computed(sourced, [one.with_source for one in pairs], resources)
        scored |= its_scored
        missing |= its_missing
    else:
        for name in _names(sourced):
            reader = next(spec.columns.get(name, name) for spec in sourced if name in spec.names)
            missing[name] = f"needs the case file (--cases FILE): {reader} reads the patient's narrative"
    return average(task, scored, missing, len(pairs))


def _computed(
    specs: Sequence[MetricSpec], pairs: Sequence[TextPair], resources: MetricResources
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Scores by metric, and the reasons of those that are missing."""
    loaded = load_metrics(specs, resources)
    missing = {name: one.reason for one in loaded if isinstance(one, NotComputed) for name in one.names}
    return score_texts([one for one in loaded if not isinstance(one, NotComputed)], pairs), missing


def _names(specs: Iterable[MetricSpec]) -> list[str]:
    return [name for spec in specs for name in spec.names]


def _unknown_ids(task: Task, matched: Iterable[Matched]) -> Iterator[str]:
    """What an official scorer refuses: ids that the key does not have, in words, a line a case."""
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
        return (
            f"nothing is predicted for {task}; what a recipe lacks for it: evigraph submit RUN --task {task}"
        )
    return (
        f"none of the {len(made)} predictions is of a case of the key (such as {made[0].case_id!r} and"
        f" {next(iter(wanted))!r}); give the key of these very cases"
    )
