"""State for resuming a training: one file, replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import BaseModel, Field

from ranking.errors import RankerError
from ranking.training.validation import Validation

if TYPE_CHECKING:
    from torch import nn

_STATE = "state.pt"


class Position(BaseModel):
    """Position of a training. The next step is `step` of the epoch.

    Attributes:
        phase: 0 is the first that the recipe has.
        best: The best validation so far; its weights are next to the state.
        curve: Points so far, as written to `curve.jsonl`.
    """

    phase: int = 0
    epoch: int = 0
    step: int = 0
    best: Validation | None = None
    curve: list[dict[str, Any]] = Field(default_factory=list)


def save_state(
    folder: Path,
    position: Position,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    """Replace the saved state. A process killed meanwhile leaves the older state.

    Raises:
        OSError: The disk is full, say; the older state is still there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{_STATE}.tmp"
    torch.save(
        {
            "position": position.model_dump_json(),
            "model": model.state_dict(),
            "optimiser": optimiser.state_dict(),
            "scheduler": scheduler.state_dict(),
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        },
        temporary,
    )
    temporary.replace(folder / _STATE)


def read_position(folder: Path) -> Position | None:
    """Position of the saved state; None without one.

    Raises:
        RankerError: It is damaged.
    """
    if not (folder / _STATE).is_file():
        return None
    with _whole_state(folder) as saved:
        return Position.model_validate_json(saved["position"])


def load_state(
    folder: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    """Put the saved state into a model and its optimiser, and the random generators where they were.

    Raises:
        RankerError: It is damaged.
    """
    with _whole_state(folder) as saved:
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        scheduler.load_state_dict(saved["scheduler"])
        torch.set_rng_state(saved["random"])
        if torch.cuda.is_available() and saved["random_cuda"]:
            torch.cuda.set_rng_state_all(saved["random_cuda"])


@contextmanager
def _whole_state(folder: Path) -> Iterator[dict[str, Any]]:
    path = folder / _STATE
    try:
        yield torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch raises errors of many classes on a file that was cut or changed.
        raise RankerError(f"{path}: damaged ({type(error).__name__}); train anew elsewhere") from error
