from __future__ import annotations

import pytest
import torch

from ranking.encoding.device import choose_placement, resolve_precision


def test_without_a_gpu_the_processor_runs_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_placement() == (torch.device("cpu"), "float32")


@pytest.mark.parametrize(("has_bfloat16", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_a_gpu_multiplies_in_what_it_has(
    monkeypatch: pytest.MonkeyPatch, has_bfloat16: bool, precision: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: has_bfloat16)
    assert choose_placement() == (torch.device("cuda"), precision)
    assert resolve_precision("float32", torch.device("cuda")) == "float32"


@pytest.mark.parametrize(
    ("avx", "amx", "precision"),
    [(True, False, "bfloat16"), (False, True, "bfloat16"), (False, False, "float32")],
)
def test_a_processor_multiplies_in_bfloat16_where_it_has_instructions_for_it(
    monkeypatch: pytest.MonkeyPatch, avx: bool, amx: bool, precision: str
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert resolve_precision("auto", torch.device("cpu")) == precision
