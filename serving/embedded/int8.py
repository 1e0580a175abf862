"""Large models with their linear layers in int8: half the memory of bf16, and several times its speed.

Decoding a few rows is bound by reading the weights, and without instructions for bf16 a processor multiplies
it one number at a time. FBGEMM's integer kernels, which come with torch, are fast on every x86 processor with
AVX2, for one row as for a prompt.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import init_empty_weights
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from serving.embedded.precision import PRECISION_VARIABLE
from serving.protocol.errors import ModelError

_WEIGHT_LEVELS = 64
"""On AVX2 two products are added in 16 bits, and 2 * 255 * 64 is the most that fits."""

_INPUT_LEVELS = 127
_INPUT_ZERO = 128

_BLOCK = 1536
"""Maximum number of inputs per scale.

Large layers have outliers, next to which all other inputs round to zero.
"""

_ROWS_AT_ONCE = 256
"""Rows of a matrix quantised at once: they stay in the processor's cache, which is seven times as fast."""

_OUTPUTS = 8960
"""Maximum number of outputs packed together.

FBGEMM transposes a matrix, and a column of a larger one does not fit the cache of a processor: of an output
layer with 150,000 rows it packs 75 MB a second in one piece, and 210 in such pieces.
"""

_LOADING_THREADS = 2
"""FBGEMM packs a matrix with one, which is most of the time that loading takes."""


class Int8Linear(nn.Module):
    """A linear layer with weights in int8, one scale for each output and block of inputs.

    The inputs are rounded to 8 bits as they come, with a scale for each token and block; torch's own dynamic
    quantisation has one scale for all tokens. Integer sums are exact, so a token's outputs do not depend on
    the other tokens of its pass.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        """Quantise.

        Args:
            weight: Shape (outputs, inputs), any floating type.
            bias: Shape (outputs,).
            dtype: Of the result.
        """
        super().__init__()
        _use_fbgemm()
        blocks = -(-weight.shape[1] // _BLOCK)
        # A multiple of the kernels' block.
        self._width = -(-weight.shape[1] // blocks // 64) * 64 if blocks > 1 else weight.shape[1]
        self._packed = [
            [_pack(part) for part in torch.split(block, _OUTPUTS)] for block in self._blocks(weight)
        ]
        self._bias = None if bias is None else bias.float()
        self._outputs = weight.shape[0]
        self._dtype = dtype

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs of shape (..., inputs) to outputs of shape (..., outputs)."""
        rows = inputs.reshape(-1, inputs.shape[-1]).float()
        total: Tensor | None = None
        for packed, block in zip(self._packed, self._blocks(rows), strict=True):
            largest = block.abs().amax(dim=-1, keepdim=True).clamp_min_(torch.finfo(torch.float32).tiny)
            scaled = block / largest
            parts = [
                torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
                    scaled, 1 / _INPUT_LEVELS, _INPUT_ZERO, part
                )
                for part in packed
            ]
            product = (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)).mul_(largest)
            total = product if total is None else total.add_(product)
        assert total is not None, "a layer has at least one block"
        if self._bias is not None:
            total += self._bias
        return total.to(self._dtype).reshape(*inputs.shape[:-1], self._outputs)

    def _blocks(self, rows: Tensor) -> list[Tensor]:
        return [rows[:, start : start + self._width] for start in range(0, rows.shape[1], self._width)]


class StoredEmbedding(nn.Module):
    """Embeddings that stay in their file: a prompt reads some hundred rows of a matrix of half a gigabyte."""

    def __init__(self, file: Path, start: int, width: int) -> None:
        """Look at nothing yet.

        Args:
            file: With rows of bf16.
            start: Byte of the first row.
            width: Numbers of a row.
        """
        super().__init__()
        self._file = file
        self._start = start
        self._width = width

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids of any shape to their rows."""
        distinct, places = np.unique(tokens.numpy(), return_inverse=True)
        length = 2 * self._width
        rows = bytearray()
        with self._file.open("rb") as stream:
            for token in distinct.tolist():
                stream.seek(self._start + token * length)
                rows += stream.read(length)
        return torch.frombuffer(rows, dtype=torch.bfloat16).reshape(-1, self._width)[torch.from_numpy(places)]


def load_int8(folder: Path, attention: str) -> PreTrainedModel:
    """A model with its linear layers in int8 and all else in bf16.

    Two matrices are in memory unquantised at a time. Embeddings stay in their file, so a model that shares
    them with its output layer holds them once.

    Args:
        folder: With config and safetensors.
        attention: Name under which transformers knows the implementation.

    Raises:
        ModelError: The files do not hold the model's weights under their names.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    with init_empty_weights(include_buffers=False):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, dtype=torch.bfloat16, attn_implementation=attention
        )
    files = _Files(folder)
    names = {module: name for name, module in model.named_modules()}
    head: nn.Module = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    if f"{names[head]}.weight" not in files:
        names[head] = names[model.get_input_embeddings()]

    def read(module: nn.Module) -> nn.Module:
        name = names[module]
        if type(module) is nn.Linear:
            bias = None if module.bias is None else files.read(f"{name}.bias")
            dtype = torch.float32 if module is head else torch.bfloat16
            return Int8Linear(files.read(f"{name}.weight"), bias, dtype)
        if type(module) is nn.Embedding and (place := files.bf16_place(f"{name}.weight")):
            return StoredEmbedding(*place, module.embedding_dim)
        for key, _ in module.named_parameters(recurse=False):
            tensor = files.read(f"{name}.{key}").to(torch.bfloat16, copy=True)
            setattr(module, key, nn.Parameter(tensor, requires_grad=False))
        return module

    # The largest first, while there is room.
    modules = sorted(names, key=_size, reverse=True)
    _use_fbgemm()
    with _single_threads() as threads:
        for old, new in zip(modules, threads.map(read, modules), strict=True):
            if new is not old:
                _replace(model, old, new)
    _return_memory()
    if (folder / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    nn.Module.eval(model)
    return model


@contextmanager
def _single_threads() -> Iterator[ThreadPoolExecutor]:
    """Threads whose matrix products use one thread each, so that they do not wait for each other's."""
    usual = torch.get_num_threads()
    started = threading.Barrier(_LOADING_THREADS + 1)

    def start() -> None:
        # For this thread, and for all that use torch for the first time from now on.
        torch.set_num_threads(1)
        started.wait()

    with ThreadPoolExecutor(_LOADING_THREADS, initializer=start) as threads:
        for _ in range(_LOADING_THREADS):
            threads.submit(int)
        started.wait()
        torch.set_num_threads(usual)
        yield threads


def _return_memory() -> None:
    """Give freed memory back to the system: a quarter of a gigabyte after 1.5 billion parameters."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


class _Files:
    """The tensors of a folder by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
                f"{self._folder} holds no weights named {name!r}, so they cannot be read as int8: "
                f"set {PRECISION_VARIABLE}=bf16"
            )
        return self._places[name]


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters(recurse=False))


def _replace(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child is old:
                setattr(parent, name, new)


def _pack(weight: Tensor) -> Any:
    """A block of a matrix as FBGEMM reads it."""
    scales = torch.empty(len(weight))
    rounded = torch.empty(weight.shape, dtype=torch.int8)
    for start in range(0, len(weight), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        exact = weight[rows].to(torch.float32, copy=True)
        largest = exact.abs().amax(dim=1).clamp_min_(torch.finfo(torch.float32).tiny)
        scales[rows] = largest / _WEIGHT_LEVELS
        rounded[rows] = exact.div_(scales[rows, None]).round_()
    zeros = torch.zeros(len(scales), dtype=torch.long)
    quantised = torch._make_per_channel_quantized_tensor(rounded, scales, zeros, 0)
    return torch.ops.quantized.linear_prepack(quantised, None)


@cache
def _use_fbgemm() -> None:
    """Pack for FBGEMM from now on. What torch picks itself may be oneDNN, which packs in another way."""
    torch.backends.quantized.engine = "fbgemm"
    with warnings.catch_warnings():
        # torch warns once that its quantised tensors move to another package; the kernels stay.
        warnings.simplefilter("ignore", UserWarning)
        torch._make_per_channel_quantized_tensor(
            torch.zeros((1, 1), dtype=torch.int8), torch.ones(1), torch.zeros(1, dtype=torch.long), 0
        )
