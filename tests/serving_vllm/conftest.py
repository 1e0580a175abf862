from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.vllm_server.find import PYTHON_VARIABLE, Installation, inspect_vllm
from tests.stand_in_vllm import StandIn, install, make_model


@pytest.fixture(autouse=True)
def no_user_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *(PYTHON_VARIABLE, "VLLM_API_KEY", "VLLM_CPU_KVCACHE_SPACE"),
        *("HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A stand-in for vLLM that processes started by a test find."""
    folder = tmp_path / "stand-in"
    folder.mkdir()
    stand_in = install(folder)
    # Logs go to the test's own folder.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, value in stand_in.environment.items():
        monkeypatch.setenv(name, value)
    yield stand_in
    stand_in.clean_up()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "tiny")


@pytest.fixture(scope="session")
def installation() -> Installation:
    python = os.environ.get("EVIGRAPH_TEST_VLLM_PYTHON")
    if not python:
        pytest.skip("set EVIGRAPH_TEST_VLLM_PYTHON to an interpreter that has vLLM")
    return inspect_vllm(Path(python))
