"""Large models with their linear layers in integers: half the memory of bf16, and several times its speed.

Writing is bound by reading the weights, so those that come in 4 bits are read in 4 bits. A prompt is bound by
products; oneDNN's of integers, which come with torch, need no instructions for bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import torch
from accelerate import init_empty_weights
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from serving.embedded.quantise import GROUP, block_width
from serving.embedded.stored_weights import QuantisedWeights, WeightFiles

_INPUT_LEVELS = 127
_ZERO_POINT = 128
"""Of inputs in unsigned integers."""

_MANY_OUTPUTS = 65_536
"""Outputs from which on a layer without 4 bits, such as a vocabulary's, is copied in oneDNN's own order.

Of 1,536 inputs and 151,936 outputs, one row takes 5 ms either way, and four rows 13 ms without the copy, 5.5
with it. Small products take longer with it.
"""

FEW_ROWS = 8
"""Tokens of a pass up to which weights of 4 bits are used. With more, products take longer than in int8."""

_writing: ContextVar[bool] = ContextVar("writing", default=False)


@contextmanager
def writing() -> Iterator[None]:
    """Let layers use weights of 4 bits in this thread.

    Prompts are always read in int8: otherwise a reply would depend on how much of its prompt was known.
    """
    before = _writing.set(True)
    try:
        yield
    finally:
        _writing.reset(before)


class Int8Linear(nn.Module):
    """A linear layer with weights in int8, one scale for each output and block of inputs.

    The inputs are rounded to 8 bits as they come, with a scale for each token and block. Integer sums are
    exact, so a token's outputs do not depend on the other tokens of its pass. In `writing`, up to eight
    tokens are multiplied by weights of 4 bits instead, if there are any, and their inputs are not rounded;
    there, too, each token is computed by itself.
    """

    def __init__(self, weights: Mapping[str, Tensor], bias: Tensor | None, dtype: torch.dtype) -> None:
        """Keep the weights.

        Args:
            weights: As `quantise` made them.
            bias: Shape (outputs,).
            dtype: Of the result.
        """
        super().__init__()
        self._scales = weights["scales"] / _INPUT_LEVELS
        self._packed, self._groups = weights.get("packed"), weights.get("groups")
        blocks = [weights[f"block{place}"] for place in range(len(self._scales))]
        if self._packed is not None:
            self._multiply = [_multiply(block) for block in blocks]
        elif len(blocks[0]) >= _MANY_OUTPUTS:
            self._multiply = [_multiply_reordered(block) for block in blocks]
        else:
            self._multiply = [_multiply(block.T) for block in blocks]
        self._inputs = sum(block.shape[self._packed is None] for block in blocks)
        self._bias = None if bias is None else bias.float()
        self._dtype = dtype

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs of shape (..., inputs) to outputs of shape (..., outputs)."""
        rows = inputs.reshape(-1, self._inputs)
        if self._packed is not None and len(rows) <= FEW_ROWS and _writing.get():
            total: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(
                rows.to(torch.bfloat16), self._packed, GROUP, self._groups
            )
        else:
            total = self._in_int8(rows.float())
        if self._bias is not None:
            total = total + self._bias
        outputs: Tensor = total.to(self._dtype).reshape(*inputs.shape[:-1], -1)
        return outputs

    def _in_int8(self, rows: Tensor) -> Tensor:
        parts = torch.split(rows, block_width(self._inputs), dim=1)
        total: Tensor | None = None
        for part, multiply, scale in zip(parts, self._multiply, self._scales, strict=True):
            largest = part.abs().amax(dim=-1, keepdim=True).clamp_min_(torch.finfo(torch.float32).tiny)
            product = multiply((part / largest).mul_(_INPUT_LEVELS).round_()).mul(scale).mul_(largest)
            total = product if total is None else total.add_(product)
        assert total is not None, "a layer has at least one block"
        return total


def _multiply(block: Tensor) -> Callable[[Tensor], Tensor]:
    """Multiply rounded inputs, shape (rows, inputs), by a block of shape (inputs, outputs)."""
    return lambda rounded: torch._int_mm(rounded.to(torch.int8), block)


def _multiply_reordered(block: Tensor) -> Callable[[Tensor], Tensor]:
    """As `_multiply`, by a block of shape (outputs, inputs), copied in the order of oneDNN's kernel.

    Sums are as exact in float32: none is more than 127 * 64 * 1536, which is less than 2 ** 24.
    """
    weights = torch.ops.onednn.qlinear_prepack(block, None)
    scale, zero = torch.ones(len(block)), torch.zeros(len(block), dtype=torch.int64)

    def multiply(rounded: Tensor) -> Tensor:
        # Inputs with a sign would go through oneDNN's reference, which takes 300 times as long.
        inputs = (rounded + _ZERO_POINT).to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(inputs, 1.0, _ZERO_POINT, weights, scale, zero, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return product

    return multiply


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
    """A model with its linear layers in integers and all else in bf16.

    The integers are mapped from the cache, where the first call stores them, and embeddings stay in their
    file.

    Args:
        folder: With config and safetensors.
        attention: Name under which transformers knows the implementation.

    Raises:
        ModelError: The files do not hold the model's weights under their names, or the cache cannot be
            written.
        WeightsError: The disk of the cache has no room for the integers.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    with init_empty_weights(include_buffers=False):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, dtype=torch.bfloat16, attn_implementation=attention
        )
    files = WeightFiles(folder)
    names = {module: name for name, module in model.named_modules()}
    head: nn.Module = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    if f"{names[head]}.weight" not in files:
        names[head] = names[model.get_input_embeddings()]
    linear = [name for module, name in names.items() if type(module) is nn.Linear]
    quantised = QuantisedWeights(files, linear)

    def read(module: nn.Module) -> nn.Module:
        name = names[module]
        if type(module) is nn.Linear:
            bias = None if module.bias is None else files.read(f"{name}.bias")
            dtype = torch.float32 if module is head else torch.bfloat16
            return Int8Linear(quantised.read(name), bias, dtype)
        if type(module) is nn.Embedding and (place := files.bf16_place(f"{name}.weight")):
            return StoredEmbedding(*place, module.embedding_dim)
        for key, _ in module.named_parameters(recurse=False):
            tensor = files.read(f"{name}.{key}").to(torch.bfloat16, copy=True)
            setattr(module, key, nn.Parameter(tensor, requires_grad=False))
        return module

    for old in names:
        if (new := read(old)) is not old:
            _replace(model, old, new)
    if (folder / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    nn.Module.eval(model)
    return model


def _replace(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child is old:
                setattr(parent, name, new)
