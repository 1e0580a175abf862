"""ROUGE-1, -2, -L and -Lsum as F-measures, equal to those of the `rouge_score` package without stemmer.

Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004. The package itself compares every word
with every other in Python, 3 to 10 ms a pair, and imports NLTK, 2 s; this takes 0.1 to 0.5 ms a pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

from evals.metrics.text_metric import TEXT_TASKS, MetricSpec, TextPair, count_ngrams, overlap, words
from ranking.measures import Counts, scores


class RougeF(NamedTuple):
    """F-measures, each 0 to 1."""

    rouge1: float
    rouge2: float
    rouge_l: float
    rouge_lsum: float


def rouge(prediction: str, reference: str) -> RougeF:
    """The four F-measures of one prediction against one reference.

    Case and everything but ASCII letters and digits are ignored. ROUGE-Lsum takes lines for sentences, and
    is ROUGE-L where neither text has a line end. A text without tokens scores 0.
    """
    predicted, wanted = words(prediction), words(reference)
    common = LCSseq.similarity(wanted, predicted)
    common_by_line = common
    if "\n" in prediction or "\n" in reference:
        lines = [[words(line) for line in text.split("\n")] for text in (prediction, reference)]
        common_by_line = union_lcs_hits(*lines)
    return RougeF(
        _rouge_n(predicted, wanted, 1),
        _rouge_n(predicted, wanted, 2),
        scores(Counts(common, len(predicted), len(wanted))).f1,
        scores(Counts(common_by_line, len(predicted), len(wanted))).f1,
    )


def _rouge_n(predicted: Sequence[str], wanted: Sequence[str], order: int) -> float:
    common = overlap(count_ngrams(wanted, order), count_ngrams(predicted, order))
    sizes = (max(len(tokens) - order + 1, 0) for tokens in (predicted, wanted))
    return scores(Counts(common, *sizes)).f1


@dataclass(frozen=True, slots=True)
class Rouge:
    """The four of ROUGE for each pair, 0 to 1."""

    names = ("rouge1", "rouge2", "rougeL", "rougeLsum")
    spread = True

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        return [rouge(pair.prediction, pair.reference) for pair in pairs]


def union_lcs_hits(predicted: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> int:
    """Tokens of the wanted sentences that are in a longest common subsequence with any predicted one.

    A token counts at most as often as both texts have it. It is the counting of ROUGE-Lsum (Lin, 2004,
    section 3.2) as the `rouge_score` package does it. Of several longest common subsequences the union
    depends on the one taken, so its walk back through the table is followed step by step. The table itself is
    a bit vector a row (Hyyrö, "Bit-Parallel LCS-length Computation Revisited", 2004).
    """
    left = Counter(token for sentence in predicted for token in sentence)
    left &= Counter(token for sentence in wanted for token in sentence)
    places = [(sentence, _places(sentence)) for sentence in predicted]
    hits = 0
    for sentence in wanted:
        matched = set().union(*(_lcs_indices(sentence, other, masks) for other, masks in places))
        for index in sorted(matched):
            if left[sentence[index]] > 0:
                left[sentence[index]] -= 1
                hits += 1
    return hits


def _places(tokens: Sequence[str]) -> dict[str, int]:
    """A bit mask of positions for each token."""
    places: dict[str, int] = {}
    for position, token in enumerate(tokens):
        places[token] = places.get(token, 0) | 1 << position
    return places


def _lcs_indices(wanted: Sequence[str], predicted: Sequence[str], places: Mapping[str, int]) -> list[int]:
    """Positions in `wanted` of the longest common subsequence that rouge_score takes, last first."""
    rows = _rows(wanted, len(predicted), places)
    indices = []
    i, j = len(wanted), len(predicted)
    while i and j:
        if wanted[i - 1] == predicted[j - 1]:
            indices.append(i - 1)
            i -= 1
            j -= 1
        elif _length(rows[i], j - 1) > _length(rows[i - 1], j):
            j -= 1
        else:
            i -= 1
    return indices


def _rows(wanted: Sequence[str], width: int, places: Mapping[str, int]) -> list[int]:
    """A bit vector for each prefix of `wanted`, with a 0 wherever its table of lengths goes up by one."""
    ones = (1 << width) - 1
    row = ones
    rows = [row]
    for token in wanted:
        matches = row & places.get(token, 0)
        row = ((row + matches) | (row - matches)) & ones
        rows.append(row)
    return rows


def _length(row: int, prefix: int) -> int:
    """Length of the longest common subsequence of a row with the first `prefix` tokens."""
    return prefix - (row & ((1 << prefix) - 1)).bit_count()


METRIC = MetricSpec(
    names=Rouge.names,
    columns={"rougeLsum": "ROUGE-Lsum"},
    tasks=TEXT_TASKS,
    load=lambda _: iter([Rouge()]),
)
