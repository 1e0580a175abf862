"""The optimiser of a training: two rates, no decay of vectors, linear warm-up and decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from torch.optim.lr_scheduler import LRScheduler

    from ranking.training.recipe import TrainingRecipe

BACKBONE = "backbone."
"""How the names of the backbone's parameters begin, in every fusion type."""


def build_optimiser(
    model: nn.Module, recipe: TrainingRecipe, steps: int
) -> tuple[torch.optim.AdamW, LRScheduler]:
    """AdamW with one rate for the backbone and one for everything above it.

    Biases and the weights of normalisation are not decayed, as is usual for transformers.

    Args:
        model: With its backbone's parameters under `backbone.`.
        recipe: Rates, decay, share of warm-up.
        steps: Of the whole phase; the rates are 0 after them.
    """
    from transformers import get_linear_schedule_with_warmup

    groups = []
    for of_backbone, rate in ((True, recipe.encoder_lr), (False, recipe.head_lr)):
        for decayed in (True, False):
            chosen = [
                parameter
                for name, parameter in model.named_parameters()
                if name.startswith(BACKBONE) == of_backbone and (parameter.ndim > 1) == decayed
            ]
            decay = recipe.weight_decay if decayed else 0.0
            groups.append({"params": chosen, "lr": rate, "weight_decay": decay})
    # A document is a step, so steps are many; fused ones read each weight once.
    optimiser = torch.optim.AdamW([group for group in groups if group["params"]], fused=True)
    warmup = round(recipe.warmup * steps)
    schedule = get_linear_schedule_with_warmup(optimiser, warmup, steps)  # type: ignore[no-untyped-call]
    return optimiser, schedule
