"""Union of longest common subsequences over sentences, the counting of ROUGE-Lsum.

Lin, 2004, section 3.2, as the `rouge_score` package does it. Of several longest common subsequences the
union depends on the one taken, so its walk back through the table is followed step by step. The table itself
is kept as a bit vector a row (Hyyrö, "Bit-Parallel LCS-length Computation Revisited", 2004).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def union_lcs_hits(predicted: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> int:
    """Tokens of the wanted sentences that are in a longest common subsequence with any predicted one.

    A token counts at most as often as both texts have it.

    Args:
        predicted: Tokens of each predicted sentence.
        wanted: Tokens of each sentence of the reference.
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
    """Of each token a bit for each of its positions."""
    places: dict[str, int] = {}
    for position, token in enumerate(tokens):
        places[token] = places.get(token, 0) | 1 << position
    return places


def _lcs_indices(wanted: Sequence[str], predicted: Sequence[str], places: Mapping[str, int]) -> list[int]:
    """Positions in `wanted` of the longest common subsequence that rouge_score takes, last first.

    Args:
        wanted: The sentence whose positions are given.
        predicted: The other sentence.
        places: `_places` of `predicted`.
    """
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
