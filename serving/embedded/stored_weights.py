"""Weights on disk: as a model's files have them, and in integers, which the cache keeps."""

from __future__ import annotations

import io
import logging
import os
import pickle
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from serving.embedded.precision import PRECISION_VARIABLE, int8_folder, parameters, tensor_entries
from serving.embedded.quantise import quantise
from serving.protocol.errors import ModelError
from weights.download import check_space

logger = logging.getLogger("evigraph.serving")

_BYTES_OF_A_PARAMETER = 1.65
"""At most: one in int8, half of one in 4 bits, and a scale and a zero point of 2 bytes for 32."""


class WeightFiles:
    """The tensors of a folder of safetensors by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[str, tuple[Path, int, dict[str, Any]]] = {}
        for file in folder.glob("*.safetensors"):
            start, entries = tensor_entries(file)
            for name, entry in entries.items():
                self._places[name] = (file, start, entry)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def read(self, name: str) -> Tensor:
        """Read one tensor. The file is closed, because pages of an open file stay in memory."""
        with safe_open(self._place(name)[0], framework="pt") as opened:
            tensor: Tensor = opened.get_tensor(name)
        return tensor

    def bf16_place(self, name: str) -> tuple[Path, int] | None:
        """File and first byte of a matrix in bf16; None if it is of another type."""
        file, data, entry = self._place(name)
        return (file, data + entry["data_offsets"][0]) if entry["dtype"] == "BF16" else None

    def _place(self, name: str) -> tuple[Path, int, dict[str, Any]]:
        if name not in self._places:
            raise ModelError(
                f"{self.folder} holds no weights named {name!r}, so they cannot be read as int8: "
                f"set {PRECISION_VARIABLE}=bf16"
            )
        return self._places[name]


class QuantisedWeights:
    """The matrices of a model in integers, each in a file of the cache."""

    def __init__(self, files: WeightFiles, matrices: Iterable[str]) -> None:
        """Find the quantised matrices, or compute and store them.

        Args:
            files: Of the model.
            matrices: Names of the layers.

        Raises:
            ModelError: The model lacks one of them, or the cache cannot be written.
            WeightsError: The disk of the cache has no room for them.
        """
        self._folder = _cache_folder(files.folder)
        if not self._folder.is_dir():
            _store(files, matrices, self._folder)

    def read(self, layer: str) -> Mapping[str, Tensor]:
        """The tensors of a layer, as `quantise` made them. They are mapped: nothing is read yet.

        Raises:
            ModelError: The file is damaged.
        """
        file = _file(self._folder, layer)
        try:
            # Its tensors begin at multiples of 64 bytes. Those of safetensors do not, and take longer.
            tensors: dict[str, Tensor] = torch.load(file, mmap=True, weights_only=True)
        except (OSError, RuntimeError, pickle.UnpicklingError) as error:
            raise ModelError(
                f"{file} is damaged ({type(error).__name__}): delete {self._folder}, which is made anew"
            ) from None
        return tensors


def _cache_folder(folder: Path) -> Path:
    """The order of packed weights depends on the processor, and may change with torch."""
    kind = f"{torch.backends.cpu.get_cpu_capability().lower()}-torch{torch.__version__.split('+')[0]}"
    return int8_folder(folder, kind)


def _file(folder: Path, layer: str) -> Path:
    return folder / f"{layer}.pt"


def _store(files: WeightFiles, matrices: Iterable[str], target: Path) -> None:
    """Write a folder that appears only when it is whole."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        needed = round(parameters(files.folder) * _BYTES_OF_A_PARAMETER)
        check_space(target.parent, needed, f"store the int8 weights of {files.folder.name}")
        logger.info("computing the int8 weights of %s, once", files.folder)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            for name in matrices:
                # By way of memory: torch's own writer ends the process when a disk is full.
                whole = io.BytesIO()
                torch.save(quantise(files.read(f"{name}.weight")), whole)
                _file(made, name).write_bytes(whole.getbuffer())
            try:
                made.rename(target)
            except OSError:
                # Another process may have been faster.
                if not target.is_dir():
                    raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"the int8 weights of {files.folder} cannot be stored in {target.parent} "
            f"({os.strerror(error.errno or 0)}): set EVIGRAPH_CACHE to a folder with room for them, "
            f"or {PRECISION_VARIABLE}=bf16"
        ) from None
