"""The training loop: one optimiser step a document, one validation an epoch."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import nn

from ranking.encoding.device import Multiplied, autocast
from ranking.errors import RankerError
from ranking.rankers.checkpoint import save_weights
from ranking.training.documents import Document, query_groups
from ranking.training.losses import objective_loss
from ranking.training.recipe import ObjectiveSettings, TrainingRecipe
from ranking.training.state import Position, load_state, save_state
from ranking.training.validation import Validation

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim.lr_scheduler import LRScheduler

    from ranking.models.model import EvidenceModel


Phase = Literal["pretrain", "train"]


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """After a step.

    Attributes:
        epoch: From 1.
        epochs: Of this phase at most; early stopping may end it before.
        step: Documents learned from in this phase.
        steps: Of this phase at most.
        loss: Mean over the last steps.
    """

    phase: Phase
    epoch: int
    epochs: int
    step: int
    steps: int
    pairs: int
    seconds: float
    loss: float

    @property
    def pairs_per_second(self) -> float:
        return self.pairs / max(self.seconds, 1e-9)


class TrainingWatcher(Protocol):
    """Shows what happens; must not take long."""

    def update(self, progress: TrainingProgress) -> None: ...

    def notify(self, text: str) -> None: ...


class SilentWatcher:
    """Shows nothing."""

    def update(self, progress: TrainingProgress) -> None:
        pass

    def notify(self, text: str) -> None:
        pass


BEST = "best.safetensors"
"""Weights of the best epoch so far, next to the state."""

_SAVE_EVERY_S = 120.0
_SMOOTHED_STEPS = 20

BACKBONE = "backbone."
"""How the names of the backbone's parameters begin, in every fusion type."""


def build_optimiser(
    model: nn.Module, recipe: TrainingRecipe, steps: int
) -> tuple[torch.optim.AdamW, LRScheduler]:
    """AdamW with one rate for the backbone and one for everything above it; they are 0 after all steps.

    Biases and the weights of normalisation are not decayed, as is usual for transformers.
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


class TrainingInterrupted(RankerError):
    """Somebody asked the training to stop; it has saved where it was."""


class TrainingDiverged(RankerError):
    """A loss or a gradient was no finite number; the weights are those before that step."""


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """A part of a training.

    Attributes:
        documents: Each gives one step an epoch.
        objective: The loss, with the weight of evidence from the training examples.
        validate: Called after each epoch with the model and the epoch, from 1. None validates nothing.
    """

    name: Phase
    documents: tuple[Document, ...]
    epochs: int
    objective: ObjectiveSettings
    validate: Callable[[EvidenceModel[Any], int], Validation] | None = None


@dataclass(slots=True)
class Session:
    """One process's part in a training.

    Attributes:
        folder: Of the state.
        resumed: Whether the state of `position` is still to be loaded.
        stopping: Asked after every step; True saves the state and ends.
    """

    recipe: TrainingRecipe
    device: torch.device
    precision: Multiplied
    folder: Path
    position: Position
    resumed: bool
    watcher: TrainingWatcher
    stopping: Callable[[], bool]
    pairs: int = 0
    seconds: float = 0.0


def run_phase(session: Session, plan: PhasePlan, model: EvidenceModel[Any]) -> None:
    """Learn until the last epoch or until validation stops improving.

    Raises:
        TrainingInterrupted: `stopping` returned True.
        TrainingDiverged: A loss or gradient was not finite.
    """
    position = session.position
    optimiser, scheduler = build_optimiser(model, session.recipe, plan.epochs * len(plan.documents))
    if session.resumed:
        load_state(session.folder, model, optimiser, scheduler)
        session.resumed = False
    saved = time.monotonic()
    while position.epoch < plan.epochs:
        order = epoch_order(len(plan.documents), session.recipe.seed, plan.name, position.epoch)
        model.train()
        while position.step < len(order):
            document = plan.documents[order[position.step]]
            begin = time.perf_counter()
            optimiser.zero_grad(set_to_none=True)
            loss = accumulate_gradients(session, plan, model, document)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), session.recipe.clip)
            _require_finite(loss, float(norm), document, plan, position)
            optimiser.step()
            scheduler.step()
            position.step += 1
            session.seconds += time.perf_counter() - begin
            session.pairs += len(document.queries) * len(document.sentences)
            _report(session, plan, loss)
            if session.stopping():
                save_state(session.folder, position, model, optimiser, scheduler)
                raise TrainingInterrupted("interrupted")
            if time.monotonic() - saved > _SAVE_EVERY_S:
                save_state(session.folder, position, model, optimiser, scheduler)
                saved = time.monotonic()
        position.step = 0
        position.epoch += 1
        if plan.validate is not None:
            _validate(session, plan, model)
        save_state(session.folder, position, model, optimiser, scheduler)
        saved = time.monotonic()


def accumulate_gradients(
    session: Session, plan: PhasePlan, model: EvidenceModel[Any], document: Document
) -> float:
    """Add the gradient of the mean loss over a document's queries.

    Returns:
        That loss. Queries that give none count as 0.
    """
    total = 0.0
    for group in query_groups(document, session.recipe.max_pairs, model):
        with autocast(session.precision, session.device):
            logits = model(document.sentences, [document.queries[query] for query in group])
        losses = [
            loss
            for row, query in enumerate(group)
            if (loss := _loss(logits[row], document.labels(query), plan.objective)) is not None
        ]
        if losses:
            loss = torch.stack(losses).sum() / len(document.queries)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
    return total


def epoch_order(count: int, seed: int, phase: str, epoch: int) -> list[int]:
    """The order of an epoch's documents; it depends only on the arguments, so a resume repeats it."""
    order = list(range(count))
    random.Random(f"{seed}:{phase}:{epoch}").shuffle(order)  # noqa: S311
    return order


def gives_loss(labels: tuple[bool, ...], objective: ObjectiveSettings) -> bool:
    """Whether an objective can learn from labels: a ranking one needs evidence, a pairwise one both kinds."""
    return _loss(torch.zeros(len(labels)), labels, objective) is not None


def _loss(scores: Tensor, labels: Sequence[bool], objective: ObjectiveSettings) -> Tensor | None:
    return objective_loss(scores, torch.tensor(labels, device=scores.device), objective)


def _require_finite(
    loss: float, norm: float, document: Document, plan: PhasePlan, position: Position
) -> None:
    if math.isfinite(loss) and math.isfinite(norm):
        return
    kind = "gradient" if math.isfinite(loss) else "loss"
    step = position.epoch * len(plan.documents) + position.step + 1
    others = len(document.examples) - 1
    also = f" or one of {others} others of its document" if others else ""
    raise TrainingDiverged(
        f"the {kind} of example {document.examples[0].id!r}{also} is not finite at step {step} (epoch"
        f" {position.epoch + 1}): lower encoder_lr and head_lr, or set precision to float32"
    )


def _report(session: Session, plan: PhasePlan, loss: float) -> None:
    position = session.position
    step = position.epoch * len(plan.documents) + position.step
    position.curve.append({"phase": plan.name, "step": step, "loss": round(loss, 6)})
    recent = [point["loss"] for point in position.curve[-_SMOOTHED_STEPS:] if "loss" in point]
    session.watcher.update(
        TrainingProgress(
            phase=plan.name,
            epoch=position.epoch + 1,
            epochs=plan.epochs,
            step=step,
            steps=plan.epochs * len(plan.documents),
            pairs=session.pairs,
            seconds=session.seconds,
            loss=sum(recent) / len(recent),
        )
    )


def _validate(session: Session, plan: PhasePlan, model: EvidenceModel[Any]) -> None:
    """Keep the weights when they are the best so far; end the phase when patience is over."""
    assert plan.validate is not None
    position = session.position
    epoch = position.epoch
    validation = plan.validate(model, epoch)
    figures = {"average_precision": validation.average_precision, "micro_f1": validation.micro_f1}
    position.curve.append(
        {"phase": plan.name, "step": epoch * len(plan.documents), "epoch": epoch, **figures}
    )
    session.watcher.notify(
        f"epoch {epoch}: held-out average precision {validation.average_precision:.3f},"
        f" micro F1 {validation.micro_f1:.3f}"
    )
    metric = session.recipe.metric
    best = position.best
    if best is None or validation.metric(metric) > best.metric(metric):
        position.best = validation
        session.folder.mkdir(parents=True, exist_ok=True)
        save_weights(session.folder / BEST, model)
    elif session.recipe.patience is not None and epoch - best.epoch >= session.recipe.patience:
        session.watcher.notify(f"no epoch since {best.epoch} was better: training ends here")
        position.epoch = plan.epochs
