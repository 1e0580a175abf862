"""MEDCON: F1 of the medical concepts of two texts, as the official scorers count it.

Yim et al., "ACI-BENCH: a Novel Ambient Clinical Intelligence Dataset for Benchmarking Automatic Visit Note
Generation", Scientific Data 2023. The reference is `medcon_scorer.MedconScorer` of ArchEHR-QA.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evals.metrics.concepts import Concept, ConceptMatcher
from evals.metrics.text_metric import TextPair


class Medcon:
    """F1 of concepts of each pair; it can pass 1, see `concept_f1`."""

    def __init__(self, matcher: ConceptMatcher, name: str = "medcon") -> None:
        """Take concepts from `matcher`; only with those of QuickUMLS is the metric the official `medcon`."""
        self._matcher = matcher
        self.names = (name,)

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        """Score each pair; a text that several pairs share is searched once."""
        texts = {text for pair in pairs for text in (pair.prediction, pair.reference)}
        found = {text: self._matcher.match(text) for text in texts}
        return [(concept_f1(found[pair.prediction], found[pair.reference]),) for pair in pairs]


def concept_f1(prediction: Iterable[Concept], reference: Iterable[Concept]) -> float:
    """F1 over the terms of two texts.

    A reference term is correct where the prediction has one of its concepts, under whatever term. Precision
    divides the correct *reference* terms by the predicted terms, as the official scorer does. So two synonyms
    in the reference and one in the prediction give a precision of 2 and an F1 of 4/3; the reverse gives 2/3.

    Returns:
        0 or more; 0 where a text has no concept, both being empty included.
    """
    predicted = list(prediction)
    predicted_cuis = {concept.cui for concept in predicted}
    wanted: dict[str, set[str]] = {}
    for concept in reference:
        wanted.setdefault(concept.term, set()).add(concept.cui)
    correct = sum(not cuis.isdisjoint(predicted_cuis) for cuis in wanted.values())
    if not correct:
        return 0.0
    precision = correct / len({concept.term for concept in predicted})
    recall = correct / len(wanted)
    return 2 * (precision * recall) / (precision + recall)
