"""The table of providers, and what the catalogue says of them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

import serving
from serving.backends import Backend, catalogue, connect
from serving.backends.backend import Entry, Provider
from serving.backends.providers import facts_of
from serving.protocol.model_name import HOSTED, PROVIDERS, parse_model_name


def state(model: str) -> str:
    (found,) = [entry.state for entry in catalogue() if entry.model == model]
    return found


def test_every_provider_is_listed_in_a_form_that_is_read() -> None:
    models = [entry.model for entry in catalogue()]
    assert len(set(models)) == len(models)
    assert {parse_model_name(model).provider for model in models} == set(PROVIDERS)
    assert {"embedded:smollm2-135m", "scripted:auto", "scripted:replies.jsonl"} <= set(models)
    assert all(entry.state and entry.description for entry in catalogue())


def test_a_server_of_the_run_needs_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVIGRAPH_VLLM_PYTHON", raising=False)
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert state("vllm:NAME").startswith("vLLM is not installed: run `make vllm`")
    monkeypatch.setenv("EVIGRAPH_VLLM_PYTHON", sys.executable)
    assert state("vllm:NAME") == f"ready: {sys.executable}"


def test_an_embedded_model_is_ready_or_names_the_command() -> None:
    assert state("embedded:smollm2-135m") in ("ready", "not fetched: evigraph models pull smollm2-135m")


def test_a_hosted_model_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert state("openai:NAME") == "needs OPENAI_API_KEY"
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    assert state("openai:NAME") == "ready"


@pytest.mark.parametrize("provider", [provider for provider in HOSTED if provider != "openai"])
def test_a_hosted_model_needs_its_package(monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    package = facts_of(provider).package
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    assert state(f"{provider}:NAME") == f"not installed: pip install {package}"


def test_a_provider_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("a_provider_of_mine")
    entry = Entry("mine:NAME", "ready", "mine")
    module.__dict__["MINE"] = Provider(lambda name: Backend(name, ()), lambda: [entry])
    monkeypatch.setitem(sys.modules, "a_provider_of_mine", module)
    monkeypatch.setitem(PROVIDERS, "mine", "a_provider_of_mine:MINE")
    name = parse_model_name("mine:large")
    assert connect(name) == Backend(name, ())
    assert catalogue()[-1] == entry


def source_files() -> dict[str, str]:
    root = Path(str(serving.__file__)).parent.parent
    others = ("tests", "tools")
    packages = [init.parent for init in root.glob("*/__init__.py") if init.parent.name not in others]
    files = [path for package in packages for path in package.rglob("*.py")]
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in files}


def test_a_hosted_provider_is_named_in_one_file() -> None:
    homes = {path for path, text in source_files().items() if '"deepseek' in text}
    assert homes == {"serving/backends/providers/deepseek.py"}
