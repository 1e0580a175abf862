"""ROUGE-2 and ROUGE-SU4 as ROUGE-1.5.5 has them (Lin 2004), against several references.

No stemming, no stop words: BioASQ does not publish its flags. `evals.metrics.rouge` is another ROUGE, that of
the package `rouge_score`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from evals.bioasq.overlap import Scores, scores
from evals.metrics.ngrams import Ngram, count_ngrams, overlap

SkipVariant = Literal["perl", "textbook"]
"""ROUGE-1.5.5 leaves out the single word at the end of a text; the definition does not."""

_TOKEN = re.compile(r"[a-z0-9]+")
_GAP = 4
"""Most words between the two of a pair."""


def rouge_2(candidate: str, references: Sequence[str]) -> Scores:
    """Pairs of neighbours. Hits are summed over references (`-f A`); no reference is 0."""
    return _against_all(candidate, references, lambda tokens: count_ngrams(tokens, 2))


def rouge_su4(candidate: str, references: Sequence[str], variant: SkipVariant = "perl") -> Scores:
    """Pairs in order with at most four words between, and single words."""
    return _against_all(candidate, references, lambda tokens: _skip_pairs(tokens, variant))


def _against_all(
    candidate: str, references: Sequence[str], count: Callable[[Sequence[str]], Counter[Ngram]]
) -> Scores:
    given = count(_tokens(candidate))
    wanted = [count(_tokens(reference)) for reference in references]
    hits = sum(overlap(one, given) for one in wanted)
    return scores(hits, len(references) * given.total(), sum(one.total() for one in wanted))


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def _skip_pairs(tokens: Sequence[str], variant: SkipVariant) -> Counter[Ngram]:
    last = len(tokens) - 1
    counts: Counter[Ngram] = Counter()
    for place, token in enumerate(tokens):
        if place < last or variant == "textbook":
            counts[token,] += 1
        for other in tokens[place + 1 : place + _GAP + 2]:
            counts[token, other] += 1
    return counts
