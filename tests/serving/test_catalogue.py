from __future__ import annotations

import sys
from pathlib import Path

import pytest

from serving.catalogue import catalogue
from serving.model_name import HOSTED_PACKAGES, PROVIDERS, parse_model_name


def state(model: str) -> str:
    (found,) = [entry.state for entry in catalogue() if entry.model == model]
    return found


def test_every_provider_is_listed_in_a_form_that_is_read() -> None:
    models = [entry.model for entry in catalogue()]
    assert len(set(models)) == len(models)
    assert {parse_model_name(model).provider for model in models} == set(PROVIDERS)
    assert {"embedded:smollm2-135m", "scripted:auto", "scripted:replies.jsonl"} <= set(models)
    assert all(entry.state and entry.description for entry in catalogue())


def test_what_needs_nothing_is_ready() -> None:
    for model in ("scripted:auto", "vllm:NAME@http://HOST:8000/v1", "openai:NAME@http://HOST:8000/v1"):
        assert state(model) == "ready"


def test_a_server_of_the_run_needs_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVIGRAPH_VLLM_PYTHON", raising=False)
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert state("vllm:NAME").startswith("vLLM is not installed: run `make vllm`")
    monkeypatch.setenv("EVIGRAPH_VLLM_PYTHON", sys.executable)
    assert state("vllm:NAME") == f"ready: {sys.executable}"


def test_an_embedded_model_is_ready_or_names_the_command() -> None:
    assert state("embedded:smollm2-135m") in ("ready", "not fetched: evigraph models pull smollm2-135m")


def test_vllm_in_this_process_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert state("vllm-offline:NAME") == "not installed: pip install 'evigraph[vllm]'"


def test_a_hosted_model_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert state("openai:NAME") == "needs OPENAI_API_KEY"
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    assert state("openai:NAME") == "ready"


@pytest.mark.parametrize("provider", [provider for provider in HOSTED_PACKAGES if provider != "openai"])
def test_a_hosted_model_needs_its_package(monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    package = HOSTED_PACKAGES[provider]
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    assert state(f"{provider}:NAME") == f"not installed: pip install {package}"


def test_the_embedded_models_need_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert state("embedded:/path/to/model") == "not installed: pip install 'evigraph[embedded]'"
    assert state("embedded:smollm2-135m") == "not installed: pip install 'evigraph[embedded]'"
