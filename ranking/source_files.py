"""Tensors in a file, whole or not there at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

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
