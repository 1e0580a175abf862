"""Tensors in safetensors files, which run no code when they are read."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cases.files import write_atomically
from ranking.errors import RankerError

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


_CHECKSUM = "sha256"


def write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors with a checksum, then rename the file into place; its folder is made.

    Raises:
        OSError: There is no room, or no right to write.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, written = tempfile.mkstemp(prefix=f".{file.stem[:16]}-", dir=file.parent)
    os.close(handle)
    try:
        content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(content, written, {_CHECKSUM: checksum(content)})
        Path(written).replace(file)
    finally:
        Path(written).unlink(missing_ok=True)


def read_tensors(file: Path) -> dict[str, Tensor] | None:
    """Tensors of a file; None when there is no such file, or it is not as it was written."""
    try:
        with safe_open(file, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - no mapping
            expected = (opened.metadata() or {}).get(_CHECKSUM)
    except (OSError, SafetensorError):
        return None
    return tensors if checksum(tensors) == expected else None


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and contents, whatever their order."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        digest.update(raw.numpy().data)
    return digest.hexdigest()
