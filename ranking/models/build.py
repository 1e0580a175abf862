"""From a configuration and a backbone to a model with fresh heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ranking.encoders import Encoder
from ranking.models.backbone import Backbone
from ranking.models.config import Fusion, ModelConfig
from ranking.models.early import EarlyFusion
from ranking.models.late import LateFusion
from ranking.models.mid import MidFusion
from ranking.models.model import EvidenceModel


def build_model(config: ModelConfig, encoder: Encoder) -> EvidenceModel[Any]:
    """Put the model together; what lies above the backbone is initialised at random.

    Seed torch before, for the same weights again. The backbone is the attribute `backbone` of every model;
    all other parameters are new.

    Raises:
        ValueError: The limits of the configuration exceed the backbone's positions.
    """
    backbone = Backbone(encoder)
    longest = config.max_query_tokens + config.max_sentence_tokens + backbone.layout.pair_overhead
    if longest > backbone.max_positions:
        raise ValueError(
            f"max_query_tokens {config.max_query_tokens}, max_sentence_tokens {config.max_sentence_tokens}"
            f" and {backbone.layout.pair_overhead} special tokens are more than the {backbone.max_positions}"
            " positions of the encoder: lower one of them"
        )
    kinds: dict[Fusion, Callable[[ModelConfig, Backbone], EvidenceModel[Any]]] = {
        "early": EarlyFusion,
        "mid": MidFusion,
        "late": LateFusion,
    }
    return kinds[config.fusion](config, backbone)
