"""Scores of a task from predictions and gold, under the names of its leaderboard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cases.submissions.prediction import Prediction, Task
from evals.metrics.parallel import score_texts
from evals.metrics.resources import MetricResources, load_metrics
from evals.metrics.text_metric import MetricName, NotComputed, TextPair
from evals.scoring.counts import Counts, count
from evals.scoring.evidence import evidence_counts, leaderboard
from evals.scoring.gold import GoldCase
from evals.scoring.matching import NEEDED, Matched, ScoringError, gold_for, made_for, match, unknown_ids
from evals.scoring.pairs import pair_2025, pair_answer, pair_question
from evals.scoring.task_scores import CaseScores, TaskScores
from evals.scoring.texts import METRICS, TextScores, average
from evals.scoring.weak import marked_if_weak

_NO_FILE = "needs the case file (--cases FILE): SARI reads the patient's narrative"
_SET_ORDER = (
    "The reference holds the essential sentences in note order. The official scorer of 2025 takes the order"
    " of a Python set, so its BLEU, ROUGE-2, ROUGE-L and SARI change from run to run."
)


def score(
    task: Task,
    predictions: Iterable[Prediction],
    gold: Mapping[str, GoldCase],
    resources: MetricResources | None = None,
    *,
    refuse_unknown: bool = True,
) -> TaskScores:
    """Score predictions of one task; `notes` tells where labels are weak.

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
    made = made_for(task, predictions)
    matched = match(made, wanted)
    if not matched:
        raise ScoringError(_nothing(task, made, gold, wanted))
    unknown = list(unknown_ids(task, matched))
    if unknown and refuse_unknown:
        raise ScoringError(
            f"{unknown[0]}; an official scorer refuses the submission. See every fault:"
            " evigraph validate FILE --key KEY"
        )
    unscored = tuple(sorted(set(wanted) - {one.made.case_id for one in matched}))
    scores = marked_if_weak(_SCORERS[task](matched, unscored, resources or MetricResources()), matched)
    if not unknown:
        return scores
    note = f"Ids that the key does not have count as wrong, in {len(unknown)} cases: {unknown[0]}."
    return replace(scores, overall=None, notes=(*scores.notes, note))


def _evidence_2026(matched: Sequence[Matched], unscored: tuple[str, ...], _: MetricResources) -> TaskScores:
    counts = [evidence_counts(frozenset(one.made.evidence or ()), one) for one in matched]
    values = leaderboard(
        {name: [each[name] for each in counts] for name in ("strict", "lenient")}, empty="perfect"
    )
    union = leaderboard({"lenient_union": [each["lenient_union"] for each in counts]}, empty="perfect")
    return TaskScores(
        "2026-2",
        values,
        values["strict_micro_f1"],
        _cases(matched, counts),
        extra=union,
        notes=("lenient_union counts supplementary sentences as gold, as the tables of TAMU 2026 do.",),
        unscored=unscored,
    )


def _links_2026(matched: Sequence[Matched], unscored: tuple[str, ...], _: MetricResources) -> TaskScores:
    counts = [
        {"links": count(frozenset(one.made.links or ()), one.gold.links or frozenset())} for one in matched
    ]
    values = leaderboard({"": [each["links"] for each in counts]}, empty="zero", averages=("micro", "macro"))
    return TaskScores("2026-4", values, values["micro_f1"], _cases(matched, counts), unscored=unscored)


def _question_2026(
    matched: Sequence[Matched], unscored: tuple[str, ...], resources: MetricResources
) -> TaskScores:
    pairs = [pair_question(one) for one in matched]
    return _of_texts("2026-1", matched, unscored, _texts("2026-1", pairs, pairs, resources))


def _answer_2026(
    matched: Sequence[Matched], unscored: tuple[str, ...], resources: MetricResources
) -> TaskScores:
    pairs = [pair_answer(one) for one in matched]
    readable = all(one.gold.narrative is not None for one in matched)
    return _of_texts(
        "2026-3", matched, unscored, _texts("2026-3", pairs, pairs if readable else (), resources)
    )


def _answer_2025(
    matched: Sequence[Matched], unscored: tuple[str, ...], resources: MetricResources
) -> TaskScores:
    counts = [evidence_counts(frozenset(one.made.evidence or ()), one) for one in matched]
    official = {"strict": "strict", "lenient": "lenient_union"}
    values = leaderboard(
        {name: [each[variant] for each in counts] for name, variant in official.items()}, empty="zero"
    )
    notes: tuple[str, ...] = ("lenient counts supplementary sentences as gold, as the scorer of 2025 does.",)
    factuality = values["strict_micro_f1"]
    if any(one.gold.narrative is None or one.gold.essential_texts is None for one in matched):
        reason = "needs the case file (--cases FILE): the reference is made of its texts"
        texts = average("2025", {}, dict.fromkeys(METRICS["2025"], reason), len(matched))
    else:
        both = [pair_2025(one) for one in matched]
        texts = _texts("2025", [pair for pair, _ in both], [pair for _, pair in both], resources)
        notes += (_SET_ORDER,)
    relevance = texts.overall
    overall = None if relevance is None else (factuality + relevance) / 2
    values |= {**_official("2025", texts), "overall_factuality_score": factuality}
    values |= {} if relevance is None else {"overall_relevance_score": relevance}
    return TaskScores(
        "2025",
        values,
        overall,
        _cases(matched, counts, texts),
        extra=_own("2025", texts),
        mean_of_available=texts.available,
        not_computed=texts.not_computed,
        notes=notes,
        unscored=unscored,
    )


_SCORERS = {
    "2025": _answer_2025,
    "2026-1": _question_2026,
    "2026-2": _evidence_2026,
    "2026-3": _answer_2026,
    "2026-4": _links_2026,
}


def _texts(
    task: Task, pairs: Sequence[TextPair], sari_pairs: Sequence[TextPair], resources: MetricResources
) -> TextScores:
    """Every metric of the task over `pairs`, SARI over pairs of its own; none of those: not computed."""
    scored, missing = _computed([name for name in METRICS[task] if name != "sari"], pairs, resources)
    if "sari" in METRICS[task]:
        if sari_pairs:
            scored |= _computed(["sari"], sari_pairs, resources)[0]
        else:
            missing["sari"] = _NO_FILE
    return average(task, scored, missing, len(pairs))


def _computed(
    names: Sequence[MetricName], pairs: Sequence[TextPair], resources: MetricResources
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Scores by metric, and the reasons of those that are missing."""
    loaded = load_metrics(names, resources)
    missing = {name: one.reason for one in loaded if isinstance(one, NotComputed) for name in one.names}
    return score_texts([one for one in loaded if not isinstance(one, NotComputed)], pairs), missing


def _of_texts(
    task: Task, matched: Sequence[Matched], unscored: tuple[str, ...], texts: TextScores
) -> TaskScores:
    return TaskScores(
        task,
        _official(task, texts),
        texts.overall,
        _cases(matched, [{}] * len(matched), texts),
        extra=_own(task, texts),
        mean_of_available=texts.available,
        not_computed=texts.not_computed,
        unscored=unscored,
    )


def _official(task: Task, texts: TextScores) -> dict[str, float]:
    return {name: value for name, value in texts.means.items() if name in METRICS[task]}


def _own(task: Task, texts: TextScores) -> dict[str, float]:
    """What no leaderboard has, such as MEDCON over a user's own terms."""
    return {name: value for name, value in texts.means.items() if name not in METRICS[task]}


def _cases(
    matched: Sequence[Matched], counts: Sequence[Mapping[str, Counts]], texts: TextScores | None = None
) -> tuple[CaseScores, ...]:
    by_case = texts.by_case if texts else [{}] * len(matched)
    return tuple(
        CaseScores(one.made.case_id, of_case, its_texts)
        for one, of_case, its_texts in zip(matched, counts, by_case, strict=True)
    )


def _nothing(
    task: Task,
    made: Sequence[Prediction],
    gold: Mapping[str, GoldCase],
    wanted: Mapping[str, GoldCase],
) -> str:
    if not wanted:
        return f"none of the {len(gold)} cases of the key has {NEEDED[task]}, which {task} is scored against"
    if not made:
        return (
            f"nothing is predicted for {task}; what a recipe lacks for it: evigraph submit RUN --task {task}"
        )
    return (
        f"none of the {len(made)} predictions is of a case of the key (such as {made[0].case_id!r} and"
        f" {next(iter(wanted))!r}); give the key of these very cases"
    )
