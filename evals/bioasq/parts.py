"""Scored parts of a question: which questions have gold for each, and their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

from cases.biomedical import QuestionType
from cases.records import Case, Verdict
from cases.submissions.bioasq import BioasqPrediction
from cases.submissions.task import TaskName
from evals.bioasq.measures import (
    Answer,
    Entries,
    SkipVariant,
    document_scores,
    factoid_scores,
    list_scores,
    placed,
    read_yes_or_no,
    rouge_2,
    rouge_su4,
    snippet_average_precision,
    snippet_scores,
)
from evals.metrics.rouge import rouge
from evals.statistics.case_totals import CaseStatistic, GeometricMean, Mean, Pooled
from evals.verdicts.scores import Accuracy, case_matrix, macro_of_classes
from ranking.measures import DEPTH, Divisor, average_precision, ndcg
from ranking.measures import PARTS as SCORES

Part = Literal["documents", "snippets", "yesno", "factoid", "list", "ideal"]

PARTS_OF: Mapping[TaskName, tuple[Part, ...]] = {
    "bioasq-a": ("documents", "snippets"),
    "bioasq-a+": ("yesno", "factoid", "list", "ideal"),
    "bioasq-b": ("yesno", "factoid", "list", "ideal"),
}

GMAP_ADDED = 1e-5
"""Keeps the logarithm of a question without a hit finite."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """Where BioASQ's scorer has several ways, or one that is not ours.

    Attributes:
        bioasq_compat: As its scorer does: a question without a prediction is skipped and not counted
            as 0, and average precision of snippets is as in `snippet_average_precision`.
        divisor: Of average precision of documents.
        skip_pairs: Of ROUGE-SU4.
    """

    bioasq_compat: bool = False
    divisor: Divisor = "capped"
    skip_pairs: SkipVariant = "perl"

    def as_json(self) -> dict[str, object]:
        return {
            "bioasq_compat": self.bioasq_compat,
            "average_precision": self.divisor,
            "rouge_su4": self.skip_pairs,
        }


_Row = Callable[[Case, BioasqPrediction, Definitions], Sequence[float]]

_RANKED = ("map", "gmap", *SCORES)
_ROUGES = (*(f"{name}_{part}" for name in ("rouge2", "rouge_su4") for part in SCORES), "rouge_score_rouge2")


@dataclass(frozen=True, slots=True)
class PartDefinition:
    """How a part is scored.

    Attributes:
        title: For people.
        headline: The part's main score, and its name for people.
        statistics: By the name of the score; each reads columns of a row.
        row: Numbers of one question.
        has_gold: Whether a question is scored.
        is_given: Whether a prediction has the part.
    """

    title: str
    headline: tuple[str, str]
    statistics: Mapping[str, CaseStatistic]
    row: _Row
    has_gold: Callable[[Case], bool]
    is_given: Callable[[BioasqPrediction], bool]


def _means(*columns: str) -> dict[str, CaseStatistic]:
    """A mean of each column; geometric for `gmap`, which holds logarithms."""
    return {
        name: GeometricMean(place) if name == "gmap" else Mean(place) for place, name in enumerate(columns)
    }


def _documents(case: Case, said: BioasqPrediction, definitions: Definitions) -> list[float]:
    relevant = frozenset(case.biomedical.documents if case.biomedical else ())
    ranked = list(dict.fromkeys(said.documents or ()))[:DEPTH]
    precision = average_precision(ranked, relevant, divisor=definitions.divisor)
    return [
        precision,
        log(precision + GMAP_ADDED),
        *document_scores(ranked, relevant),
        ndcg(ranked, relevant, add=sum),
    ]


def _snippets(case: Case, said: BioasqPrediction, definitions: Definitions) -> list[float]:
    wanted = list(dict.fromkeys(placed(case.biomedical.snippets if case.biomedical else ())))
    given = list(dict.fromkeys(said.snippets or ()))[:DEPTH]
    precision = snippet_average_precision(given, wanted, any_of_document=definitions.bioasq_compat)
    return [precision, log(precision + GMAP_ADDED), *snippet_scores(given, wanted)]


def _yesno(case: Case, said: BioasqPrediction, definitions: Definitions) -> list[float]:
    wanted: Verdict = "yes" if case.gold.exact_answer == "yes" else "no"
    # Anything else counts as unanswered, and so as wrong.
    given = read_yes_or_no(_exact(said)) or "unknown"
    row: list[float] = case_matrix([wanted], [given], 2)[0].tolist()
    return row


def _ideal(case: Case, said: BioasqPrediction, definitions: Definitions) -> list[float]:
    references = case.gold.ideal_answers or ()
    answer = said.ideal_answer or ""
    package = max((rouge(answer, reference).rouge2 for reference in references), default=0.0)
    return [
        *rouge_2(answer, references),
        *rouge_su4(answer, references, definitions.skip_pairs),
        package,
    ]


def _exact(said: BioasqPrediction) -> Answer:
    return () if said.exact_answer is None else said.exact_answer


def _entries(case: Case) -> Entries:
    gold = case.gold.exact_answer
    return () if gold is None or isinstance(gold, str) else gold


def _answers(
    kind: QuestionType,
    title: str,
    headline: tuple[str, str],
    statistics: Mapping[str, CaseStatistic],
    row: _Row,
) -> PartDefinition:
    return PartDefinition(
        f"exact answers: {title}",
        headline,
        statistics,
        row,
        lambda case: (
            case.biomedical is not None
            and case.biomedical.type == kind
            and case.gold.exact_answer is not None
        ),
        lambda said: said.exact_answer is not None,
    )


PARTS: Mapping[Part, PartDefinition] = {
    "documents": PartDefinition(
        "phase A: documents",
        ("map", "MAP of documents"),
        _means(*_RANKED, "ndcg"),
        _documents,
        lambda case: case.biomedical is not None and bool(case.biomedical.documents),
        lambda said: said.documents is not None,
    ),
    "snippets": PartDefinition(
        "phase A: snippets",
        ("f1", "F1 of snippets"),
        _means(*_RANKED),
        _snippets,
        lambda case: case.biomedical is not None and bool(placed(case.biomedical.snippets)),
        lambda said: said.snippets is not None,
    ),
    "yesno": _answers(
        "yesno",
        "yes or no",
        ("accuracy", "accuracy of yes and no"),
        {
            "macro_f1": macro_of_classes(2, "f1", scale=1),
            "accuracy": Accuracy(2, scale=1),
            "f1_yes": Pooled(0, "f1", "zero"),
            "f1_no": Pooled(3, "f1", "zero"),
        },
        _yesno,
    ),
    "factoid": _answers(
        "factoid",
        "factoid",
        ("mrr", "MRR of factoids"),
        _means("strict_accuracy", "lenient_accuracy", "mrr"),
        lambda case, said, _: factoid_scores(_exact(said), _entries(case)),
    ),
    "list": _answers(
        "list",
        "list",
        ("f1", "F1 of lists"),
        _means(*SCORES),
        lambda case, said, _: list_scores(_exact(said), _entries(case)),
    ),
    "ideal": PartDefinition(
        "ideal answers",
        ("rouge_su4_f1", "ROUGE-SU4 F1 of ideal answers"),
        _means(*_ROUGES),
        _ideal,
        lambda case: case.biomedical is not None and bool(case.gold.ideal_answers),
        lambda said: bool(said.ideal_answer and said.ideal_answer.strip()),
    ),
}
"""In the order in which they are shown; the headline of the first that a run gives is its main score."""
