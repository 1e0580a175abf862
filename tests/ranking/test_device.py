from __future__ import annotations

import pytest
import torch

from ranking.encoding.device import choose_placement


def test_without_a_gpu_the_processor_runs_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_placement() == (torch.device("cpu"), "float32")
