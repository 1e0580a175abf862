"""Linear layers in int8, on small random models: how near they are, and that nothing is lost on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config
from typer.testing import CliRunner

from cli.main import app
from serving.embedded.causal_model import CausalModel
from serving.embedded.int8 import FEW_ROWS, Int8Linear, StoredEmbedding, load_int8, writing
from serving.embedded.precision import parameters, precision_of, revision_of
from serving.embedded.quantise import four_bits, quantise
from serving.protocol.errors import ModelError
from tests.serving_embedded.cases import MODEL, needs_integers
from weights.registry import WeightsError

Make = Callable[..., Path]

TOKENS = [5, 3, 8, 1, 1, 40]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache in place of the user's."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("EVIGRAPH_CACHE", str(folder))
    return folder


def of_four_bits(weight: Tensor) -> Tensor:
    """The nearest matrix of 4 bits, as a GGUF file would have it, in bf16."""
    groups = weight.float().reshape(-1, 32)
    lowest = groups.amin(dim=1, keepdim=True)
    step = (groups.amax(dim=1, keepdim=True) - lowest) / 15
    rounded = ((groups - lowest) / step).round()
    return (rounded * step + lowest).reshape(weight.shape).to(torch.bfloat16)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a model folder; its large layer has more inputs than one block."""

    def made(*, tied: bool, bits: int = 16) -> Path:
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
            elif bits == 4 and "proj" in name:
                parameter.data = of_four_bits(parameter.data)
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
    layer = Int8Linear(quantise(weight), bias, torch.float32)
    assert error(layer(rows), nn.functional.linear(rows, weight, bias)) < 0.02


def test_an_outlier_costs_its_own_block_and_token_alone() -> None:
    torch.manual_seed(0)
    weight, rows = torch.randn(8, 3000), torch.randn(2, 3000)
    layer = Int8Linear(quantise(weight), None, torch.float32)
    before = layer(rows)
    rows[0, 0] = 5_000.0
    after = layer(rows)
    assert torch.equal(after[1], before[1])
    assert error(after[0], rows[0] @ weight.T) < 0.02


def test_rows_do_not_depend_on_their_neighbours() -> None:
    torch.manual_seed(0)
    layer = Int8Linear(quantise(torch.randn(96, 2000)), None, torch.bfloat16)
    rows = torch.randn(40, 2000).bfloat16()
    assert torch.equal(layer(rows), torch.cat([layer(row[None]) for row in rows]))


def test_the_output_layer_of_a_vocabulary_has_the_sums_of_other_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    weights = quantise(torch.randn(96, 2048))
    rows = torch.randn(40, 2048).bfloat16()
    other = Int8Linear(weights, None, torch.float32)(rows)
    monkeypatch.setattr("serving.embedded.int8._MANY_OUTPUTS", 96)
    layer = Int8Linear(weights, None, torch.float32)
    for count in (1, 2, 40):
        assert torch.equal(layer(rows[:count]), other[:count])


def test_few_written_tokens_are_multiplied_by_the_four_bits_as_they_came() -> None:
    torch.manual_seed(0)
    weight, bias = of_four_bits(torch.randn(96, 2048)), torch.randn(96)
    layer = Int8Linear(quantise(weight), bias, torch.float32)
    rows = torch.randn(FEW_ROWS + 1, 2048).bfloat16()
    exact = nn.functional.linear(rows.float(), weight.float(), bias)
    with writing():
        few = layer(rows[:FEW_ROWS])
        alone = torch.cat([layer(row[None]) for row in rows[:FEW_ROWS]])
        many = layer(rows)
    assert error(few, exact[:FEW_ROWS]) < 0.005
    assert torch.equal(few, alone)
    assert 0.005 < error(many, exact) < 0.02
    assert torch.equal(layer(rows[:1]), many[:1])


def test_four_bits_are_found_in_the_values() -> None:
    torch.manual_seed(0)
    codes = torch.randint(0, 16, (32, 256), dtype=torch.int32)
    codes[:, 0], codes[:, 1] = 0, 15
    # Some groups use a part of their grid, and one has a single value.
    codes[:, 32:64] = codes[:, 32:64] // 3 + 4
    codes[:, 64:96] = 5
    steps = (torch.rand(32, 8) + 0.1).repeat_interleave(32, dim=1)
    weight = ((codes - 7) * steps).bfloat16()
    found = four_bits(weight)
    assert found is not None
    grids = found[1].float().transpose(0, 1).repeat_interleave(32, dim=1)
    assert error((found[0] - 8) * grids[..., 0] + grids[..., 1], weight) < 0.005
    assert torch.equal(found[0][:, :32], codes[:, :32])


@pytest.mark.parametrize(
    "weight",
    [
        pytest.param(torch.randn(32, 256, generator=torch.Generator().manual_seed(0)), id="more bits"),
        pytest.param(torch.zeros(32, 250), id="no whole groups"),
        pytest.param(torch.zeros(50, 256), id="no multiple of 16 outputs"),
    ],
)
def test_other_matrices_have_int8_alone(weight: Tensor) -> None:
    assert four_bits(weight) is None
    assert set(quantise(weight)) == {"scales", "block0"}


@needs_integers
def test_integers_are_computed_once_and_mapped_at_multiples_of_64_bytes(
    make: Make, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tied=True, bits=4)
    with torch.inference_mode():
        (before,) = CausalModel(folder, "int8").forward(0, [0], [TOKENS])
        monkeypatch.setattr("serving.embedded.stored_weights.quantise", None)
        (after,) = CausalModel(folder, "int8").forward(0, [0], [TOKENS])
    assert torch.equal(before, after)
    (stored,) = (cache / "int8").iterdir()
    tensors = [
        tensor
        for file in stored.iterdir()
        for tensor in torch.load(file, mmap=True, weights_only=True).values()
    ]
    assert len(tensors) > 2 * 7 * 4
    assert {tensor.data_ptr() % 64 for tensor in tensors} == {0}


def test_a_damaged_file_is_named_with_its_remedy(make: Make, cache: Path) -> None:
    folder = make(tied=True)
    load_int8(folder, "sdpa")
    file = next((cache / "int8").rglob("*down_proj.pt"))
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ModelError, match=r"down_proj\.pt is damaged .*: delete .*int8.*, which is made anew"):
        load_int8(folder, "sdpa")


def test_a_cache_that_cannot_be_written_is_named_with_two_remedies(make: Make, cache: Path) -> None:
    (cache / "int8").touch()
    with pytest.raises(ModelError, match=r"cannot be stored .*EVIGRAPH_CACHE .*EVIGRAPH_PRECISION=bf16"):
        load_int8(make(tied=True), "sdpa")


def test_a_full_disk_ends_in_one_line_and_leaves_nothing(make: Make, cache: Path) -> None:
    folder = make(tied=True)
    # In another process: torch's writer would end this one.
    ended = subprocess.run(
        [sys.executable, "-c", _LOAD_ON_A_FULL_DISK, str(folder)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "cannot be stored" in ended.stdout and "EVIGRAPH_CACHE" in ended.stdout
    assert list((cache / "int8").iterdir()) == []


_LOAD_ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from serving.embedded.int8 import load_int8
from serving.protocol.errors import ModelError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    load_int8(Path(sys.argv[1]), "sdpa")
except ModelError as error:
    print(error)
"""


def test_a_disk_without_room_is_found_before_anything_is_computed(
    make: Make, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.embedded.stored_weights.quantise", None)
    monkeypatch.setattr("weights.download.shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(WeightsError, match=r"store the int8 weights of .* 1 MB are free: .*EVIGRAPH_CACHE"):
        load_int8(make(tied=True), "sdpa")
    assert list((cache / "int8").iterdir()) == []


def test_a_process_that_ends_early_leaves_nothing_that_looks_whole(
    make: Make, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tied=True)
    with monkeypatch.context() as broken, pytest.raises(RuntimeError, match="ended"):
        broken.setattr("serving.embedded.stored_weights.torch.save", _end)
        load_int8(folder, "sdpa")
    assert list((cache / "int8").iterdir()) == []
    load_int8(folder, "sdpa")


@needs_integers
def test_a_pull_computes_them_once(whole_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "models").mkdir()
    (cache / "models" / whole_folder.name).symlink_to(whole_folder)
    monkeypatch.setenv("EVIGRAPH_PRECISION", "int8")
    assert CliRunner().invoke(app, ["models", "pull", MODEL]).exit_code == 0
    (made,) = (cache / "int8").iterdir()
    assert len(list(made.iterdir())) == 30 * 7 + 1
    monkeypatch.setattr("serving.embedded.causal_model.CausalModel", None)
    assert CliRunner().invoke(app, ["models", "pull", MODEL]).exit_code == 0


def test_two_processes_may_compute_them_at_once(
    make: Make, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tied=True)
    load_int8(folder, "sdpa")
    (first,) = (cache / "int8").iterdir()
    looks = iter([False])
    is_dir = Path.is_dir

    def looked_at_too_early(path: Path) -> bool:
        return next(looks, is_dir(path)) if path == first else is_dir(path)

    monkeypatch.setattr(Path, "is_dir", looked_at_too_early)
    load_int8(folder, "sdpa")
    assert next(looks, None) is None
    assert list((cache / "int8").iterdir()) == [first]


def _end(*_: object) -> None:
    raise RuntimeError("ended")


@needs_integers
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_answers_nearly_as_in_bf16(make: Make, tied: bool) -> None:
    folder = make(tied=tied)
    with torch.inference_mode():
        (exact,) = CausalModel(folder, "bf16").forward(0, [0], [TOKENS])
        (rounded,) = CausalModel(folder, "int8").forward(0, [0], [TOKENS])
    assert error(rounded, exact) < 0.05
    assert not torch.equal(rounded, exact)


@needs_integers
@pytest.mark.parametrize("bits", [4, 16])
def test_guesses_leave_every_bit_as_it_is(make: Make, bits: int) -> None:
    model = CausalModel(make(tied=True, bits=bits), "int8")
    first, *guesses = 40, 3, 8, 1, 22
    with torch.inference_mode(), writing():
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
