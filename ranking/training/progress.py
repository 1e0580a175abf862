"""How far a training is, for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

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
        """Nothing."""

    def notify(self, text: str) -> None:
        """Nothing."""
