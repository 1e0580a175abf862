"""Tensors in safetensors files, which run no code when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ranking.errors import RankerError
from storage.files import write_atomically

if TYPE_CHECKING:
    from torch import nn


def save_weights(path: Path, model: nn.Module) -> None:
    """Write all parameters and buffers; `path` holds its old content or all of the new one."""
    from safetensors.torch import save

    # Clones, since safetensors refuses tensors that share memory, as tied weights do.
    tensors = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    # Not by its `save_file`, whose files only their owner may read.
    write_atomically(path, [save({name: tensor.contiguous() for name, tensor in tensors.items()})])


def load_weights(path: Path, model: nn.Module) -> None:
    """Put weights into a model of the same architecture.

    Raises:
        RankerError: The file is damaged, or is of another architecture or backbone.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise RankerError(f"{path}: cannot be read as weights: {error}") from error
    own = model.state_dict()
    for name, tensor in own.items():
        if name not in tensors:
            raise RankerError(f"{path}: it has no {name!r}, so it is of another model or backbone")
        if tensors[name].shape != tensor.shape:
            raise RankerError(
                f"{path}: {name} has shape {tuple(tensors[name].shape)}, the model wants"
                f" {tuple(tensor.shape)}: the weights are of another backbone"
            )
    for name in tensors:
        if name not in own:
            raise RankerError(f"{path}: the model has no {name!r}, so the weights are of another model")
    model.load_state_dict(tensors)
