"""Where a model runs and in which precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class Placement(NamedTuple):
    """A device and the type for autocast; None leaves everything in float32."""

    device: torch.device
    autocast: torch.dtype | None


def choose_placement() -> Placement:
    """The first CUDA device in bfloat16 where it has that, else the processor in float32.

    Written for one GPU and not yet run on one. On processors float32 stays: without AMX or AVX512-BF16,
    bfloat16 is slower there.
    """
    import torch

    if not torch.cuda.is_available():
        return Placement(torch.device("cpu"), None)
    autocast = torch.bfloat16 if torch.cuda.is_bf16_supported() else None
    return Placement(torch.device("cuda"), autocast)
