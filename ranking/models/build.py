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
from ranking.models.window import WindowFusion

_LEAST = 16
"""Tokens that a window has for sentences beside the longest query."""


def build_model(config: ModelConfig, encoder: Encoder) -> EvidenceModel[Any]:
    """Put the model together; what lies above the backbone is initialised at random.

    Seed torch before, for the same weights again. The backbone is the attribute `backbone` of every model;
    all other parameters are new.

    Raises:
        ValueError: The limits of the configuration exceed the backbone's positions.
    """
    backbone = Backbone(encoder)
    _check_limits(config, backbone)
    kinds: dict[Fusion, Callable[[ModelConfig, Backbone], EvidenceModel[Any]]] = {
        "early": EarlyFusion,
        "mid": MidFusion,
        "late": LateFusion,
        "window": WindowFusion,
    }
    return kinds[config.fusion](config, backbone)


def _check_limits(config: ModelConfig, backbone: Backbone) -> None:
    special = backbone.layout.pair_overhead
    longest = config.max_query_tokens + config.max_sentence_tokens + special
    if longest > backbone.max_positions:
        raise ValueError(
            f"max_query_tokens {config.max_query_tokens}, max_sentence_tokens {config.max_sentence_tokens}"
            f" and {special} special tokens are more than the {backbone.max_positions}"
            " positions of the encoder: lower one of them"
        )
    if config.fusion == "window" and config.max_window_tokens < config.max_query_tokens + special + _LEAST:
        raise ValueError(
            f"max_window_tokens {config.max_window_tokens} leaves no room for sentences beside"
            f" max_query_tokens {config.max_query_tokens}: raise the one or lower the other"
        )
