"""Evaluation of a model on held-out examples: one pass of scores, tuned cut-offs, figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch

from cases.definitions import Section
from ranking.cutoffs import Cutoff
from ranking.encoding.device import Multiplied, autocast
from ranking.errors import RankerError
from ranking.measures import average_precision_of_scores
from ranking.training.documents import Document, query_groups
from ranking.training.recipe import CutoffRule, Metric
from ranking.tuning import RuleKind, ScoredCase, best_cutoff

if TYPE_CHECKING:
    from ranking.models.model import EvidenceModel


class TunedCutoff(Section):
    """A cut-off with its micro F1.

    Attributes:
        micro_f1: On the cases that it was tuned on, which is optimistic.
        left_out_micro_f1: Where each case is selected by the cut-off that the others tuned.
    """

    cutoff: Cutoff
    micro_f1: float
    left_out_micro_f1: float


class Validation(Section):
    """Figures on the held-out examples.

    Attributes:
        average_precision: Mean over the examples that have evidence.
        micro_f1: Of the chosen rule; each case is selected by the cut-off that the others tuned.
        cutoff: The chosen rule, tuned on all cases.
    """

    epoch: int
    average_precision: float
    micro_f1: float
    cutoff: Cutoff
    tuned: dict[RuleKind, TunedCutoff]

    def metric(self, name: Metric) -> float:
        return self.average_precision if name == "average_precision" else self.micro_f1


def validate(
    model: EvidenceModel[Any],
    epoch: int,
    *,
    documents: Sequence[Document],
    rule: CutoffRule,
    max_pairs: int,
    precision: Multiplied = "float32",
) -> Validation:
    """Score the held-out documents once, in evaluation mode; from the scores come all figures and cut-offs.

    Raises:
        RankerError: A score is not finite, or no held-out example has evidence.
    """
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    cases: list[ScoredCase] = []
    with torch.inference_mode():
        for document in documents:
            for group in query_groups(document, max_pairs, model):
                with autocast(precision, device):
                    logits = model(document.sentences, [document.queries[query] for query in group])
                for query, row in zip(group, logits.float().cpu().numpy(), strict=True):
                    scores = np.asarray(row, dtype=np.float32)
                    if not np.isfinite(scores).all():
                        example = document.examples[query]
                        raise RankerError(f"a score of held-out example {example.id!r} is not finite")
                    cases.append(ScoredCase(scores, document.labels(query)))
    model.train(was_training)
    tuned = tune_cutoffs(cases)
    # The first of the best: rules come from the simplest on.
    best = max(tuned.values(), key=lambda one: round(one.left_out_micro_f1, 12))
    chosen = best if rule == "best" else tuned[rule]
    precisions = [average_precision_of_scores(case.scores, case.labels) for case in cases]
    with_evidence = [value for value in precisions if value is not None]
    if not with_evidence:
        raise RankerError("no held-out example has a sentence of evidence: hold more out, or give more data")
    return Validation(
        epoch=epoch,
        average_precision=float(np.mean(with_evidence)),
        micro_f1=chosen.left_out_micro_f1,
        cutoff=chosen.cutoff,
        tuned=tuned,
    )


def tune_cutoffs(cases: Sequence[ScoredCase]) -> dict[RuleKind, TunedCutoff]:
    """Tune every rule on cases, at least two. What F1 is reported leaves out the case that is selected in."""
    found: dict[RuleKind, TunedCutoff] = {}
    for kind in get_args(RuleKind):
        tuned = best_cutoff(cases, [kind])
        assert tuned.held_out_f1 is not None
        found[kind] = TunedCutoff(cutoff=tuned.cutoff, micro_f1=tuned.f1, left_out_micro_f1=tuned.held_out_f1)
    return found
