"""Which models a GPU may replay; the other tests of this folder compare the replays themselves, on a GPU."""

from __future__ import annotations

import pytest
from transformers import LlamaConfig, MixtralConfig, PreTrainedConfig, Qwen2Config

from serving.embedded.recorded_steps import can_be_recorded

GROWING = LlamaConfig(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0})


@pytest.mark.parametrize(
    ("config", "expected"),
    [(LlamaConfig(), True), (Qwen2Config(), True), (GROWING, False), (MixtralConfig(), False)],
)
def test_models_whose_passes_depend_on_their_numbers_are_not_recorded(
    config: PreTrainedConfig, expected: bool
) -> None:
    assert can_be_recorded(config) is expected
