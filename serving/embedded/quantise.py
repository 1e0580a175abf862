"""Weights in integers: computed once for a model, kept in the cache, and mapped into memory at each start."""

from __future__ import annotations

import json
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

from serving.embedded.precision import PRECISION_VARIABLE, int8_folder
from serving.protocol.errors import ModelError

logger = logging.getLogger("evigraph.serving")

WEIGHT_LEVELS = 64
"""On AVX2 two products are added in 16 bits, and 2 * 255 * 64 is the most that fits."""

BLOCK = 1536
"""Maximum number of inputs per scale.

Large layers have outliers, next to which all other inputs round to zero.
"""

GROUP = 32
"""Weights of 4 bits that share a scale and a zero point, in GGUF as in torch's kernel."""

_OUTPUTS_STEP = 16
"""The kernel for 4 bits takes multiples of it."""

_FIT = 2.0**-7
"""Deviation allowed from a grid of 16 values, relative to the largest value of the group.

Values and grid are rounded to bf16, which has 8 binary digits; half a step of the grid is at least 2 ** -5 of
the range.
"""

_LEVELS = (15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
"""Steps between the lowest and the highest value of a group. Most groups use the whole range."""

_ROWS_AT_ONCE = 256
"""Rows of a matrix quantised at once: they stay in the processor's cache, which is several times as fast."""


class WeightFiles:
    """The tensors of a folder of safetensors by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[str, tuple[Path, int, dict[str, Any]]] = {}
        for file in folder.glob("*.safetensors"):
            with file.open("rb") as stream:
                length = int.from_bytes(stream.read(8), "little")
                header = json.loads(stream.read(length))
            for name, entry in header.items():
                self._places[name] = (file, 8 + length, entry)

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


def quantise(weight: Tensor) -> dict[str, Tensor]:
    """A matrix in int8, and as it is if it consists of 4 bits.

    Args:
        weight: Shape (outputs, inputs), any floating type.

    Returns:
        `scales`, shape (blocks, outputs), float32, and for each block of inputs `block0`, `block1` and so on,
        int8. Matrices of 4 bits also have `packed`, uint8, in the order in which this processor's kernel
        reads it, and `groups`, bf16, shape (inputs / 32, outputs, 2), the scale and the zero point of each
        group; their blocks have shape (inputs of the block, outputs), with which some rows take less time.
        Those of others have shape (outputs, inputs of the block), with which one row does.
    """
    blocks = torch.split(weight, block_width(weight.shape[1]), dim=1)
    rounded = [_int8(block) for block in blocks]
    made = {"scales": torch.stack([scales for _, scales in rounded])}
    if (found := four_bits(weight)) is not None:
        codes, made["groups"] = found
        made["packed"] = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    for place, (values, _) in enumerate(rounded):
        made[f"block{place}"] = values.T.contiguous() if "packed" in made else values
    return made


def block_width(inputs: int) -> int:
    """Inputs of each block of a layer but the last, a multiple of 64 if there are several."""
    blocks = -(-inputs // BLOCK)
    return -(-inputs // blocks // 64) * 64 if blocks > 1 else inputs


def _int8(block: Tensor) -> tuple[Tensor, Tensor]:
    """Rounded values, shape (outputs, inputs), and the scale of each output."""
    scales = torch.empty(len(block))
    rounded = torch.empty(block.shape, dtype=torch.int8)
    for start in range(0, len(block), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        exact = block[rows].to(torch.float32, copy=True)
        largest = exact.abs().amax(dim=1).clamp_min_(torch.finfo(torch.float32).tiny)
        scales[rows] = largest / WEIGHT_LEVELS
        rounded[rows] = exact.div_(scales[rows, None]).round_()
    return rounded, scales


def four_bits(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """The 4 bits and the grids from which a matrix was made; None if it was not.

    Weights of a GGUF file of 4 bits are stored in bf16. Their grids are found in the values, so that neither
    the file nor its names and permutations are needed.

    Args:
        weight: Shape (outputs, inputs).

    Returns:
        Codes from 0 to 15, int32, shape (outputs, inputs), and scales and zero points, bf16, shape
        (inputs / 32, outputs, 2): a weight is (code - 8) * scale + zero.
    """
    outputs, inputs = weight.shape
    if inputs % GROUP or outputs % _OUTPUTS_STEP:
        return None
    codes = torch.empty((outputs, inputs), dtype=torch.int32)
    grids = torch.empty((outputs, inputs // GROUP, 2))
    for start in range(0, outputs, _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        groups = weight[rows].float().reshape(-1, GROUP)
        lowest = groups.amin(dim=1, keepdim=True)
        span = groups.amax(dim=1, keepdim=True) - lowest
        allowed = groups.abs().amax(dim=1, keepdim=True) * _FIT
        best = torch.empty_like(groups)
        steps = torch.empty_like(span)
        left = torch.arange(len(groups))
        for levels in _LEVELS:
            step = (span[left] / levels).clamp_min_(torch.finfo(torch.float32).tiny)
            tried = ((groups[left] - lowest[left]) / step).round_()
            fits = ((tried * step + lowest[left] - groups[left]).abs() <= allowed[left]).all(dim=1)
            best[left[fits]], steps[left[fits]] = tried[fits], step[fits]
            left = left[~fits]
            if not len(left):
                break
        else:
            return None
        codes[rows] = best.to(torch.int32).reshape(-1, inputs)
        grids[rows] = torch.cat([steps, lowest + 8 * steps], dim=1).reshape(-1, inputs // GROUP, 2)
    return codes, grids.transpose(0, 1).to(torch.bfloat16).contiguous()


def _cache_folder(folder: Path) -> Path:
    """The order of packed weights depends on the processor, and may change with torch."""
    kind = f"{torch.backends.cpu.get_cpu_capability().lower()}-torch{torch.__version__.split('+')[0]}"
    return int8_folder(folder, kind)


def _file(folder: Path, layer: str) -> Path:
    return folder / f"{layer}.pt"


def _store(files: WeightFiles, matrices: Iterable[str], target: Path) -> None:
    """Write a folder that appears only when it is whole."""
    logger.info("computing the int8 weights of %s, once", files.folder)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            for name in matrices:
                torch.save(quantise(files.read(f"{name}.weight")), _file(made, name))
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
