"""Where a sentence stands in its document, as numbers."""

from __future__ import annotations

import torch
from torch import Tensor

POSITION_FEATURES = 5


def position_features(sentences: int) -> Tensor:
    """Relative position, distances to both ends, first, last.

    Distances are `log(1 + d) / 5`, so that neighbours differ near an end and hardly in the middle, and 150
    sentences give 1.

    Returns:
        Shape (sentences, POSITION_FEATURES), float32. Of a single sentence, relative position is 0.
    """
    index = torch.arange(sentences, dtype=torch.float32)
    from_end = index.flip(0)
    relative = index / max(sentences - 1, 1)
    distances = [torch.log1p(index) / 5, torch.log1p(from_end) / 5]
    return torch.stack([relative, *distances, (index == 0).float(), (from_end == 0).float()], dim=1)
