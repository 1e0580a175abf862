"""SARI of single texts, as `evaluate.load("sari")` computes it.

Xu et al., "Optimizing Statistical Machine Translation for Text Simplification", TACL 2016. The reference
follows the authors' code with two changes: 0/0 is 1, and the recall of kept n-grams is counted by tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evals.metrics.bleu import tokenize_13a
from evals.metrics.text_metric import ANSWER_TASKS, MetricSpec, Ngram, TextPair, count_ngrams
from ranking.measures import f1_of_rates, ratio

_MAX_ORDER = 4


class Operations(NamedTuple):
    """How well n-grams of one order are kept, deleted and added; each 0 to 1."""

    keep: float
    delete: float
    add: float


def sentence_sari(source: str, prediction: str, references: Sequence[str]) -> float:
    """SARI of one prediction, from its changes to `source` and the references' changes.

    The mean of three scores, each over n-grams of one to four tokens of the lower-cased texts: F1 of kept
    n-grams, precision of deleted ones, F1 of added ones. An empty text has one token, the empty string.

    Returns:
        0 to 100.
    """
    source_tokens, predicted, *wanted = (
        tokenize_13a(text.lower()).split(" ") for text in (source, prediction, *references)
    )
    by_order = [
        operations(
            count_ngrams(source_tokens, order),
            count_ngrams(predicted, order),
            _pooled(wanted, order),
            len(references),
        )
        for order in range(1, _MAX_ORDER + 1)
    ]
    means: list[float] = [sum(scores) / _MAX_ORDER for scores in zip(*by_order, strict=True)]
    return 100 * (sum(means) / len(means))


def operations(
    source: Counter[Ngram],
    prediction: Counter[Ngram],
    references: Counter[Ngram],
    reference_count: int,
) -> Operations:
    """Score the n-grams of one order.

    Counts of the source and the prediction are multiplied by the number of references, to be compared with
    `references`, the counts of all of these together. Terms are summed in the order of the source, as in
    the reference implementation, so that sums round alike.
    """
    kept_precision = deleted_precision = 0.0
    kept_types = deleted_types = kept_well = keepable = 0
    predicted, wanted_of = prediction.get, references.get
    for ngram, once in source.items():
        has, wanted = predicted(ngram, 0), wanted_of(ngram, 0)
        if not has and not wanted:  # most of a long source: a third of the time without the general steps
            deleted_types += 1
            deleted_precision += 1.0
            continue
        had, has = once * reference_count, has * reference_count
        keepable += min(had, wanted)
        if kept := min(had, has):
            kept_types += 1
            well = min(kept, wanted)
            kept_well += well
            kept_precision += well / kept
        if had > has:
            deleted = had - has
            deleted_types += 1
            deleted_precision += max(deleted - wanted, 0) / deleted
    added = prediction.keys() - source.keys()
    addable = references.keys() - source.keys()
    added_well = len(added & addable)
    return Operations(
        keep=f1_of_rates(ratio(kept_precision, kept_types, 1.0), ratio(kept_well, keepable, 1.0)),
        delete=ratio(deleted_precision, deleted_types, 1.0),
        add=f1_of_rates(ratio(added_well, len(added), 1.0), ratio(added_well, len(addable), 1.0)),
    )


def _pooled(references: Sequence[Sequence[str]], order: int) -> Counter[Ngram]:
    pooled: Counter[Ngram] = Counter()
    for tokens in references:
        pooled.update(count_ngrams(tokens, order))
    return pooled


@dataclass(frozen=True, slots=True)
class Sari:
    """SARI of each pair against its one reference, 0 to 100."""

    names = ("sari",)
    spread = True

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        return [(sentence_sari(pair.source, pair.prediction, [pair.reference]),) for pair in pairs]


METRIC = MetricSpec(
    names=Sari.names,
    columns={"sari": "SARI"},
    tasks=ANSWER_TASKS,
    load=lambda _: iter([Sari()]),
    percent=False,
    reads_source=True,
)
