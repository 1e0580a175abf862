"""Passes of one token a row on a GPU, recorded as CUDA graphs.

Launched one by one, the thousand kernels of a pass keep the processor busy for far longer than they run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedConfig

SLOTS_STEP = 512
"""Passes that see more slots than their rows have, up to a multiple of this, share a recording."""

_PASSES_BEFORE = 3
"""A recording takes as long as three passes; rows that end early change their number before it pays."""

_STATIC_POSITIONS = ("default", "linear", "llama3", "yarn")
"""Encodings of positions that do not depend on the length of the text so far."""

Pass = Callable[[Tensor, Tensor, int], Tensor]
"""From tokens and positions, both of shape (rows, 1), and the number of slots to logits."""


@dataclass(frozen=True, slots=True, eq=False)
class _Recording:
    graph: torch.cuda.CUDAGraph
    tokens: Tensor
    positions: Tensor
    logits: Tensor


def can_be_recorded(config: PreTrainedConfig) -> bool:
    """Whether every pass of a model has the same kernels; one that looks at numbers in between has not."""
    positions = getattr(config, "rope_parameters", None) or {}
    experts = any("experts" in name for name in config.to_dict())
    return positions.get("rope_type", "default") in _STATIC_POSITIONS and not experts


class RecordedSteps:
    """Replays a pass where it has the number of rows and slots of an earlier one. Not thread-safe."""

    def __init__(self, one_pass: Pass) -> None:
        self._pass = one_pass
        self._memory: object = None
        self._passes: Counter[tuple[int, int]] = Counter()
        self._recordings: dict[tuple[int, int], _Recording] = {}

    def run(self, tokens: Tensor, positions: Tensor, slots: int, memory: object) -> Tensor:
        """Logits after one token of each row, overwritten by the next call.

        Args:
            tokens: Shape (rows, 1).
            positions: As `tokens`.
            slots: A multiple of `SLOTS_STEP`.
            memory: Equal as long as the pass reads and writes the same memory.
        """
        if memory != self._memory:
            self._memory = memory
            self._recordings.clear()
            self._passes.clear()
        key = (len(tokens), slots)
        recording = self._recordings.get(key)
        if recording is None:
            self._passes[key] += 1
            if self._passes[key] <= _PASSES_BEFORE:
                return self._pass(tokens, positions, slots)
            recording = self._recordings[key] = self._record(tokens, positions, slots)
        recording.tokens.copy_(tokens)
        recording.positions.copy_(positions)
        recording.graph.replay()
        return recording.logits

    def _record(self, tokens: Tensor, positions: Tensor, slots: int) -> _Recording:
        tokens, positions = tokens.clone(), positions.clone()
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile, as rankers do.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            logits = self._pass(tokens, positions, slots)
        return _Recording(graph, tokens, positions, logits)
