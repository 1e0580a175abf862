"""BLEU of single texts, without smoothing, as `evaluate.load("bleu")` computes it.

Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation", ACL 2002. The reference is
`compute_bleu` of tensorflow/nmt, over tokens of mteval-v13a.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from evals.metrics.text_metric import ANSWER_TASKS, MetricSpec, TextPair, count_ngrams, overlap

_MAX_ORDER = 4

_split_word: Callable[[str], str] = TokenizerRegexp()


def _split_words(line: str) -> str:
    """Split off punctuation, one word after another; sacrebleu remembers words.

    The rules look one character back and ahead and treat every blank alike, so a word splits the same way in
    every position.
    """
    return " ".join([_split_word(f" {word} ") for word in line.split()])


_tokenizer: Any = Tokenizer13a()
# Its last step over whole lines takes a third of SARI's time and half of BLEU's.
_tokenizer._post_tokenizer = _split_words

tokenize_13a: Callable[[str], str] = _tokenizer
"""From a text to its tokens, joined by single spaces; "" for a text of blanks.

It joins words broken as `-` and a line end, resolves the four entities of SGML, and keeps the case.
"""


def sentence_bleu(prediction: str, reference: str) -> float:
    """BLEU of one prediction against one reference.

    The geometric mean of the precisions of 1- to 4-grams times the brevity penalty; case counts. Nothing is
    smoothed, so that a prediction without a 4-gram of the reference scores 0.

    Returns:
        0 to 1. 0 where one of the texts has no token; there the reference implementation divides by zero.
    """
    predicted, wanted = tokenize_13a(prediction).split(), tokenize_13a(reference).split()
    if not predicted or not wanted:
        return 0.0
    precisions = []
    # From the longest, because most pairs without a score show it there.
    for order in range(_MAX_ORDER, 0, -1):
        correct = overlap(count_ngrams(predicted, order), count_ngrams(wanted, order))
        if not correct:
            return 0.0
        precisions.append(correct / (len(predicted) - order + 1))
    # In the reference's steps, from 1-grams up and by the inverse of the ratio: others round differently.
    log_mean = sum((1.0 / _MAX_ORDER) * math.log(precision) for precision in reversed(precisions))
    ratio = len(predicted) / len(wanted)
    brevity_penalty = 1.0 if ratio > 1.0 else math.exp(1 - 1.0 / ratio)
    return math.exp(log_mean) * brevity_penalty


@dataclass(frozen=True, slots=True)
class Bleu:
    """BLEU of each pair, 0 to 1."""

    names = ("bleu",)
    spread = True

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        return [(sentence_bleu(pair.prediction, pair.reference),) for pair in pairs]


METRIC = MetricSpec(
    names=Bleu.names, columns={"bleu": "BLEU"}, tasks=ANSWER_TASKS, load=lambda _: iter([Bleu()])
)
