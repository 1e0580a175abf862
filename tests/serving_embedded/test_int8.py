"""Linear layers in int8, on small random models: how near they are, and that nothing is lost on the way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config

from serving.embedded.causal_model import CausalModel
from serving.embedded.int8 import Int8Linear, StoredEmbedding, load_int8
from serving.embedded.precision import parameters, precision_of, revision_of
from serving.protocol.errors import ModelError

Make = Callable[..., Path]

TOKENS = [5, 3, 8, 1, 1, 40]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a model folder; its large layer has more inputs than one block."""

    def made(*, tied: bool) -> Path:
        torch.manual_seed(0)
        config = Qwen2Config(
            vocab_size=50,
            hidden_size=64,
            intermediate_size=3200,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            tie_word_embeddings=tied,
        )
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                nn.init.normal_(parameter)
        model.generation_config.eos_token_id = [7, 9]
        model.save_pretrained(tmp_path)
        return tmp_path

    return made


def error(found: Tensor, exact: Tensor) -> float:
    return float((found.float() - exact.float()).norm() / exact.float().norm())


@pytest.mark.parametrize("inputs", [64, 1000, 1537, 8960])
def test_a_layer_is_within_two_percent(inputs: int) -> None:
    torch.manual_seed(0)
    weight, bias, rows = torch.randn(96, inputs), torch.randn(96), torch.randn(2, 5, inputs)
    layer = Int8Linear(weight, bias, torch.float32)
    assert error(layer(rows), nn.functional.linear(rows, weight, bias)) < 0.02


def test_an_outlier_costs_its_own_block_and_token_alone() -> None:
    torch.manual_seed(0)
    weight, rows = torch.randn(8, 3000), torch.randn(2, 3000)
    layer = Int8Linear(weight, None, torch.float32)
    before = layer(rows)
    rows[0, 0] = 5_000.0
    after = layer(rows)
    assert torch.equal(after[1], before[1])
    assert error(after[0], rows[0] @ weight.T) < 0.02


def test_rows_do_not_depend_on_their_neighbours() -> None:
    torch.manual_seed(0)
    layer = Int8Linear(torch.randn(96, 2000), None, torch.bfloat16)
    rows = torch.randn(40, 2000).bfloat16()
    assert torch.equal(layer(rows), torch.cat([layer(row[None]) for row in rows]))


def test_outputs_packed_in_pieces_are_those_of_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    weight, bias, rows = torch.randn(96, 2000), torch.randn(96), torch.randn(5, 2000)
    whole = Int8Linear(weight, bias, torch.float32)(rows)
    monkeypatch.setattr("serving.embedded.int8._OUTPUTS", 40)
    assert torch.equal(Int8Linear(weight, bias, torch.float32)(rows), whole)


def test_loading_leaves_the_number_of_threads(make: Make) -> None:
    before = torch.get_num_threads()
    load_int8(make(tied=True), "sdpa")
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *found] == [before, before]


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_answers_nearly_as_in_bf16(make: Make, tied: bool) -> None:
    folder = make(tied=tied)
    with torch.inference_mode():
        (exact,) = CausalModel(folder, "bf16").forward(0, [0], [TOKENS])
        (rounded,) = CausalModel(folder, "int8").forward(0, [0], [TOKENS])
    assert error(rounded, exact) < 0.05
    assert not torch.equal(rounded, exact)


def test_guesses_leave_every_bit_as_it_is(make: Make) -> None:
    model = CausalModel(make(tied=True), "int8")
    first, *guesses = 40, 3, 8, 1, 22
    with torch.inference_mode():
        model.forward(0, [0], [TOKENS])
        (together,) = model.forward(0, [len(TOKENS)], [[first]], [guesses])
        stored = model.rows.read(0, 0, len(TOKENS) + 5).clone()
        model.forward(0, [0], [TOKENS])
        alone = [
            model.forward(0, [len(TOKENS) + place], [[token]])[0]
            for place, token in enumerate([first, *guesses])
        ]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(stored, model.rows.read(0, 0, len(TOKENS) + 5))


def test_every_layer_is_quantised_and_shared_embeddings_are_kept_once(make: Make) -> None:
    model: PreTrainedModel = load_int8(make(tied=True), "sdpa")
    kinds = {type(module) for module in model.modules()}
    assert {Int8Linear, StoredEmbedding} < kinds
    assert not kinds & {nn.Linear, nn.Embedding}
    # Norms are all that is left.
    assert sum(parameter.numel() for parameter in model.parameters()) == (2 * 2 + 1) * 64
    assert not any(parameter.is_meta for parameter in model.parameters())


def test_the_ends_of_replies_are_those_of_the_folder(make: Make) -> None:
    assert CausalModel(make(tied=True), "int8").stop_tokens == {7, 9}


def test_stored_embeddings_are_the_rows_of_the_file(make: Make) -> None:
    folder = make(tied=True)
    tokens = torch.tensor([[49, 0, 3], [3, 3, 7]])
    exact = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).get_input_embeddings()
    stored = load_int8(folder, "sdpa").get_input_embeddings()
    assert isinstance(stored, StoredEmbedding)
    assert torch.equal(stored(tokens), exact(tokens))


def test_weights_under_other_names_are_refused_in_one_line(make: Make) -> None:
    folder = make(tied=True)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(ModelError, match=r"no weights named 'model\.layers\.2\..*EVIGRAPH_PRECISION=bf16"):
        load_int8(folder, "sdpa")


def test_parameters_are_counted_from_the_headers(make: Make) -> None:
    folder = make(tied=True)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert parameters(folder) == sum(parameter.numel() for parameter in model.parameters())


def test_large_models_are_int8_unless_the_user_says_otherwise(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tied=True)
    monkeypatch.delenv("EVIGRAPH_PRECISION", raising=False)
    monkeypatch.setattr("serving.embedded.precision._has_int8", lambda: True)
    assert precision_of(folder) == "bf16"
    monkeypatch.setattr("serving.embedded.precision.MIN_INT8_PARAMETERS", parameters(folder))
    assert precision_of(folder) == "int8"
    monkeypatch.setenv("EVIGRAPH_PRECISION", "bf16")
    assert precision_of(folder) == "bf16"
    monkeypatch.setenv("EVIGRAPH_PRECISION", "int4")
    with pytest.raises(ModelError, match="'int4' is unknown: known are bf16, int8"):
        precision_of(folder)


def test_without_the_kernels_large_models_stay_in_bf16(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tied=True)
    monkeypatch.setattr("serving.embedded.precision.MIN_INT8_PARAMETERS", 1)
    monkeypatch.setattr("serving.embedded.precision._has_int8", lambda: False)
    monkeypatch.delenv("EVIGRAPH_PRECISION", raising=False)
    assert precision_of(folder) == "bf16"
    monkeypatch.setenv("EVIGRAPH_PRECISION", "int8")
    with pytest.raises(ModelError, match="needs an x86 processor"):
        precision_of(folder)


def test_the_precision_is_part_of_the_revision_and_bf16_has_none() -> None:
    assert revision_of("abc", "bf16") == "abc"
    assert revision_of("abc", "int8") == "int8-abc"
