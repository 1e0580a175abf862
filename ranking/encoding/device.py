"""Device and precision of a model."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import torch

    from ranking.training.recipe import Precision

Multiplied = Literal["float32", "bfloat16"]
"""Precision of matrix products; weights are always float32."""


class Placement(NamedTuple):
    """A device and a precision."""

    device: torch.device
    precision: Multiplied


def choose_placement() -> Placement:
    """The first CUDA device in bfloat16 where it has that, else the processor in float32.

    On processors float32 stays: without AMX or AVX512-BF16, bfloat16 is slower there.
    """
    import torch

    if not torch.cuda.is_available():
        return processor()
    device = torch.device("cuda")
    return Placement(device, resolve_precision("auto", device))


def processor() -> Placement:
    """The processor in float32."""
    import torch

    return Placement(torch.device("cpu"), "float32")


def resolve_precision(precision: Precision, device: torch.device) -> Multiplied:
    """Resolve `auto` for a device.

    Measured on one thread of a processor with AVX-512 BF16 (MiniLM, 50 documents of SciFact with 786 pairs,
    forward and backward): 18.6 pairs a processor-second in bfloat16, 10.6 in float32.
    """
    import torch

    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    # Without instructions for it, a processor converts every product first.
    multiplies = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bfloat16" if device.type == "cpu" and multiplies else "float32"


def autocast(precision: Multiplied, device: torch.device) -> AbstractContextManager[None]:
    """Within it, matrices are multiplied in a precision; weights and their gradients stay float32."""
    if precision == "float32":
        return nullcontext()
    import torch

    return torch.autocast(device.type, torch.bfloat16)
