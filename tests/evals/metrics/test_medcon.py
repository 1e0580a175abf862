from __future__ import annotations

import pytest

from evals.metrics.concepts import Concept, QuickUmlsMatcher
from evals.metrics.medcon import Medcon, concept_f1
from evals.metrics.text_metric import TextPair

_HEART_ATTACK = Concept("heart attack", "C0027051")
_INFARCTION = Concept("myocardial infarction", "C0027051")
_FEVER = Concept("fever", "C0015967")


class _Index:
    """Answers in the form of QuickUMLS 1.4.2."""

    def match(self, text: str) -> list[list[dict[str, object]]]:
        found = [concept for concept in (_HEART_ATTACK, _INFARCTION, _FEVER) if concept.term in text.lower()]
        return [[self._candidate(text, concept)] for concept in found]

    def _candidate(self, text: str, concept: Concept) -> dict[str, object]:
        start = text.lower().index(concept.term)
        end = start + len(concept.term)
        return {
            "start": start,
            "end": end,
            "ngram": text[start:end],
            "term": concept.term,
            "cui": concept.cui,
            "similarity": 1.0,
            "semtypes": {"T047"},
            "preferred": 1,
        }


def test_a_synonym_is_as_good() -> None:
    assert concept_f1([_INFARCTION], [_HEART_ATTACK]) == 1


def test_two_reference_terms_of_one_concept_count_twice() -> None:
    assert concept_f1([_INFARCTION], [_HEART_ATTACK, _INFARCTION]) == pytest.approx(4 / 3)


def test_two_predicted_terms_of_one_concept_count_once() -> None:
    assert concept_f1([_HEART_ATTACK, _INFARCTION], [_INFARCTION]) == pytest.approx(2 / 3)


def test_a_term_of_several_concepts_is_one_term() -> None:
    cold = [Concept("cold", "C0009443"), Concept("cold", "C0234192")]
    assert concept_f1(cold[:1], cold) == 1


@pytest.mark.parametrize(
    ("prediction", "reference"), [([], []), ([_FEVER], []), ([], [_FEVER]), ([_FEVER], [_INFARCTION])]
)
def test_nothing_shared_scores_0(prediction: list[Concept], reference: list[Concept]) -> None:
    assert concept_f1(prediction, reference) == 0


def test_quickumls_terms_are_those_of_the_vocabulary() -> None:
    assert QuickUmlsMatcher(_Index()).match("FEVER after Heart attack") == [_HEART_ATTACK, _FEVER]


def test_pairs_are_scored_in_their_order() -> None:
    pairs = [TextPair("Fever", "fever, heart attack"), TextPair("none", "fever")]
    assert Medcon(QuickUmlsMatcher(_Index())).score(pairs) == [(pytest.approx(2 / 3),), (0,)]
