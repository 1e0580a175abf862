"""Scored values of each task of ArchEHR-QA 2025 and 2026, and how official scorers count them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cases.submissions.archehr import Prediction, Task
from evals.metrics.text_metric import TextPair
from evals.scoring.gold import GoldCase
from ranking.measures import Counts, EmptyRule, count


class Matched(NamedTuple):
    """One prediction and the gold of its case."""

    made: Prediction
    gold: GoldCase


class Pairs(NamedTuple):
    """References for text metrics, and for those that also read a source, such as SARI."""

    all: TextPair
    with_source: TextPair


class Variant(NamedTuple):
    """A way to count a prediction against its gold set.

    Attributes:
        name: Of the counts.
        prefix: Of its values' names.
        official: Whether the leaderboard has it. Otherwise it appears in long tables, and next to the
            leaderboard's values if `extra`.
    """

    name: str
    prefix: str
    official: bool = True
    extra: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAs:
    """How a task is scored.

    Attributes:
        title: For people.
        needs: Parts of the key that it needs.
        has_gold: Whether it does; a case without labels is unlabelled, not empty.
        in_case_files: Whether the case files contain gold, whatever a key says.
        is_made: Whether a prediction has something for the task.
        counts: Counts of a case by variant.
        variants: Those, in their order.
        averages: In the order of the leaderboard.
        empty: What nothing predicted where nothing is wanted scores.
        headline: The value of pooled counts that is the task's score, or its half of it (2025).
        reads_labels: Whether gold are relevance labels, which may be weak; otherwise people wrote it.
        pairs: Pairs for text metrics.
        needs_texts: Why text metrics cannot be computed without the texts of the case file.
        averaged: Text metrics whose plain mean is the task's score, or its part of it (2025).
        notes: Cautions for the numbers.
        text_notes: Cautions for text metrics.
    """

    title: str
    needs: str
    has_gold: Callable[[GoldCase], bool]
    is_made: Callable[[Prediction], bool]
    in_case_files: bool = False
    counts: Callable[[Matched], Mapping[str, Counts]] = lambda _: {}
    variants: Sequence[Variant] = ()
    averages: Sequence[str] = ("macro", "micro")
    empty: EmptyRule = "zero"
    headline: str | None = None
    reads_labels: bool = False
    pairs: Callable[[Matched], Pairs] | None = None
    needs_texts: str | None = None
    averaged: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    text_notes: tuple[str, ...] = ()


def _evidence(matched: Matched) -> dict[str, Counts]:
    """Counts of evidence against essential sentences, strict and in two meanings of lenient.

    The official scorer of 2026 takes supplementary sentences out of the prediction: they neither help nor
    harm (`lenient`). That of 2025, and the development tables of TAMU 2026, add them to the gold set: they
    help, and to miss them harms (`lenient_union`).
    """
    predicted = frozenset(matched.made.evidence or ())
    essential, supplementary = matched.gold.essential, matched.gold.supplementary
    return {
        "strict": count(predicted, essential),
        "lenient": count(predicted - supplementary, essential),
        "lenient_union": count(predicted, essential | supplementary),
    }


def _links(matched: Matched) -> dict[str, Counts]:
    return {"links": count(frozenset(matched.made.links or ()), matched.gold.links or frozenset())}


def _pairs_2025(matched: Matched) -> Pairs:
    """The reference is the narrative, the question and the essential sentences; SARI rewrites the first two.

    The official scorer joins the essential sentences in the order of a Python set, which changes from run to
    run; here they are in note order.
    """
    made, gold = matched
    asked = f"{(gold.narrative or '').strip()}\n\n{(gold.question or '').strip()}"
    essential = "\n".join(gold.essential_texts or ())
    prediction = made.answer or ""
    return Pairs(TextPair(prediction, f"{asked}\n\n{essential}"), TextPair(prediction, essential, asked))


def _pairs_of_question(matched: Matched) -> Pairs:
    pair = TextPair(matched.made.question or "", matched.gold.question or "")
    return Pairs(pair, pair)


def _pairs_of_answer(matched: Matched) -> Pairs:
    """Against the clinician's answer; SARI's source is the narrative alone."""
    made, gold = matched
    pair = TextPair(made.answer or "", gold.answer or "", gold.narrative or "")
    return Pairs(pair, pair)


TASKS: Mapping[Task, ScoredAs] = {
    "2026-1": ScoredAs(
        title="2026, subtask 1: clinician question",
        needs="a clinician question",
        has_gold=lambda gold: bool(gold.question),
        is_made=lambda made: made.question is not None,
        in_case_files=True,
        pairs=_pairs_of_question,
        averaged=("alignscore", "rougeLsum", "medcon", "bertscore"),
    ),
    "2026-2": ScoredAs(
        title="2026, subtask 2: evidence",
        needs="labels",
        has_gold=lambda gold: gold.labels is not None,
        is_made=lambda made: made.evidence is not None,
        counts=_evidence,
        variants=(
            Variant("strict", "strict_"),
            Variant("lenient", "lenient_"),
            Variant("lenient_union", "lenient_union_", official=False, extra=True),
        ),
        empty="perfect",
        headline="strict_micro_f1",
        reads_labels=True,
        notes=("lenient_union counts supplementary sentences as gold, as the tables of TAMU 2026 do.",),
    ),
    "2026-3": ScoredAs(
        title="2026, subtask 3: answer",
        needs="a clinician answer",
        has_gold=lambda gold: gold.answer is not None,
        is_made=lambda made: made.answer is not None,
        pairs=_pairs_of_answer,
        averaged=("bleu", "rougeLsum", "sari", "bertscore", "alignscore", "medcon"),
    ),
    "2026-4": ScoredAs(
        title="2026, subtask 4: links between answer and evidence",
        needs="citations of the clinician answer's sentences",
        has_gold=lambda gold: gold.links is not None,
        is_made=lambda made: made.links is not None,
        counts=_links,
        variants=(Variant("links", ""),),
        averages=("micro", "macro"),
        headline="micro_f1",
    ),
    "2025": ScoredAs(
        title="2025: cited answer",
        needs="labels",
        has_gold=lambda gold: gold.labels is not None,
        is_made=lambda made: made.answer is not None and made.evidence is not None,
        counts=_evidence,
        variants=(
            Variant("strict", "strict_"),
            Variant("lenient_union", "lenient_"),
            Variant("lenient", "lenient_2026_", official=False),
        ),
        headline="strict_micro_f1",
        reads_labels=True,
        pairs=_pairs_2025,
        needs_texts="needs the case file (--cases FILE): the reference consists of its texts",
        averaged=("alignscore", "rougeLsum", "bleu", "medcon", "bertscore", "sari"),
        notes=("lenient counts supplementary sentences as gold, as the scorer of 2025 does.",),
        text_notes=(
            "The reference holds the essential sentences in note order. The official scorer of 2025 takes the"
            " order of a Python set, so its BLEU, ROUGE-2, ROUGE-L and SARI change from run to run.",
        ),
    ),
}
"""In the order in which they are shown."""
