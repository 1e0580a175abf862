"""What a model is trained on top of: the scores of the cheapest ranker, to which it adds its own.

One pair at a time, a model cannot see where a sentence stands, or how it compares with its neighbours. The
logistic regression sees just that, and learns it from a few hundred examples. The model starts as its equal,
since its head starts at zero, and learns what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor, nn

from ranking.examples import Example
from ranking.logistic import LogisticRanker, fit_logistic
from ranking.training.documents import Document, Prepared


def fit_prior(examples: Sequence[Example]) -> LogisticRanker:
    """Fit the regression on the training examples alone.

    Raises:
        RankerError: There is too little to learn from.
        WeightsError: The packaged encoder is not installed.
    """
    return fit_logistic(examples, data="the training examples of this ranker")


def with_prior(prepared: Prepared, prior: LogisticRanker) -> Prepared:
    """The same documents, with the prior's score of every pair."""
    examples = [example for document in prepared.documents for example in document.examples]
    scores = iter(prior.rank_examples(examples))
    documents = []
    for document in prepared.documents:
        rows = [of_example[list(document.places)] for of_example in islice(scores, len(document.examples))]
        documents.append(replace(document, prior=tuple(rows)))
    return replace(prepared, documents=tuple(documents))


def add_prior(logits: Tensor, document: Document, queries: Sequence[int]) -> Tensor:
    """Logits with the prior's added, shape (queries, sentences); as they are where there is no prior."""
    if not document.prior:
        return logits
    rows = [torch.from_numpy(document.prior[query]) for query in queries]
    return logits + torch.stack(rows).to(logits)


def start_at_prior(head: nn.Linear) -> None:
    """Let the model add nothing before its first step."""
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
