"""What a training needs to go on where it was: saved as a whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import BaseModel, Field

from ranking.encoding.tensor_files import load_weights, save_weights
from ranking.errors import RankerError
from ranking.training.validation import Validation

if TYPE_CHECKING:
    from torch import nn

_PREFIX = "state-"
_WEIGHTS = "weights.safetensors"
_OPTIMISER = "optimiser.pt"
_POSITION = "position.json"


class Position(BaseModel):
    """Where a training is. The next step is `step` of the epoch.

    Attributes:
        phase: 0 is the first that the recipe has.
        epoch: Of the phase, from 0.
        step: Of the epoch, from 0.
        saves: Count of saved states; the greatest is the newest.
        best: The best validation so far; its weights are beside the state.
        curve: Points so far, as written to `curve.jsonl`.
    """

    phase: int = 0
    epoch: int = 0
    step: int = 0
    saves: int = 0
    best: Validation | None = None
    curve: list[dict[str, Any]] = Field(default_factory=list)


def save_state(
    folder: Path,
    position: Position,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    """Save all, then drop what was saved before. A process that is killed in between leaves the older state.

    Raises:
        OSError: The disk is full, say; the older state is still there.
    """
    position.saves += 1
    target = folder / f"{_PREFIX}{position.saves:06}"
    workplace = folder / f".{target.name}.tmp"
    shutil.rmtree(workplace, ignore_errors=True)
    workplace.mkdir(parents=True)
    save_weights(workplace / _WEIGHTS, model)
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    torch.save(
        {
            "optimiser": optimiser.state_dict(),
            "scheduler": scheduler.state_dict(),
            "random": torch.get_rng_state(),
            "random_cuda": cuda,
        },
        workplace / _OPTIMISER,
    )
    (workplace / _POSITION).write_text(position.model_dump_json(), "utf-8")
    workplace.rename(target)
    for other in folder.glob(f"{_PREFIX}*"):
        if other != target:
            shutil.rmtree(other, ignore_errors=True)


def read_position(folder: Path) -> Position | None:
    """Where the newest saved state is; None when there is none.

    Raises:
        RankerError: It is damaged.
    """
    newest = _newest(folder)
    if newest is None:
        return None
    try:
        return Position.model_validate_json((newest / _POSITION).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RankerError(f"{newest}: damaged ({type(error).__name__}); train anew elsewhere") from error


def load_state(
    folder: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    """Put the newest saved state into a model and its optimiser, and the random generators where they were.

    Raises:
        RankerError: It is damaged.
    """
    newest = _newest(folder)
    assert newest is not None
    try:
        load_weights(newest / _WEIGHTS, model)
        saved = torch.load(newest / _OPTIMISER, map_location="cpu", weights_only=True)
        optimiser.load_state_dict(saved["optimiser"])
        scheduler.load_state_dict(saved["scheduler"])
        torch.set_rng_state(saved["random"])
        if torch.cuda.is_available() and saved["random_cuda"]:
            torch.cuda.set_rng_state_all(saved["random_cuda"])
    except RankerError:
        raise
    except Exception as error:
        # torch raises errors of many classes on a file that was cut or changed.
        raise RankerError(f"{newest}: damaged ({type(error).__name__}); train anew elsewhere") from error


def _newest(folder: Path) -> Path | None:
    return max(folder.glob(f"{_PREFIX}*"), default=None)
