"""The choice of one token."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor


def sample_generator(seed: int, sample: int, prompt: Sequence[int]) -> torch.Generator:
    """Randomness of one sample, whatever else is decoded beside it.

    The prompt has its part in it. Without it, a vote and its own reflection would draw the same numbers for
    the same sentences, and so would every case of a batch: reflections would seem to agree with their votes.
    """
    # Hashed, because generators with neighbouring seeds start out alike.
    digest = hashlib.sha256(f"{seed} {sample} {list(prompt)}".encode()).digest()
    generator = torch.Generator()
    generator.manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    return generator


def choose_token(
    logits: Tensor, allowed: Tensor | None, temperature: float, top_p: float, generator: torch.Generator
) -> int:
    """Pick a token.

    Args:
        logits: Of the whole vocabulary, float32 on the CPU.
        allowed: Ids to pick from; None stands for all.
        temperature: 0 picks the likeliest.
        top_p: The likeliest tokens that together reach this share are kept.
        generator: Of the sample.
    """
    candidates = logits if allowed is None else logits[allowed]
    if temperature <= 0:
        index = int(candidates.argmax())
    else:
        shares = torch.softmax(candidates / temperature, dim=-1)
        if top_p < 1:
            ordered, order = shares.sort(descending=True)
            ordered[ordered.cumsum(-1) - ordered >= top_p] = 0
            index = int(order[torch.multinomial(ordered, 1, generator=generator)])
        else:
            index = int(torch.multinomial(shares, 1, generator=generator))
    return index if allowed is None else int(allowed[index])
