"""Matrices in integers: rounded to int8, and in the 4 bits from which they were made."""

from __future__ import annotations

import torch
from torch import Tensor

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
