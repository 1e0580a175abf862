"""Private parts of providers' packages that requests and batches need: they exist, and are pinned."""

from __future__ import annotations

import ast
import tomllib
from importlib.metadata import version
from itertools import chain
from operator import attrgetter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from serving.backends.hosted import chat_model
from serving.backends.providers import facts_of
from serving.protocol.model_name import ModelName
from tests.evigraph import ROOT
from tests.serving.hosted_models import MODELS

PRIVATE = (
    ("openai", "_get_request_payload", "langchain-openai"),
    ("openai", "_create_chat_result", "langchain-openai"),
    ("anthropic", "_get_request_payload", "langchain-anthropic"),
    ("anthropic", "_format_output", "langchain-anthropic"),
    ("anthropic", "_async_client", "langchain-anthropic"),
    ("openai", "_identifying_params", "langchain-openai"),
    ("google_genai", "_prepare_request", "langchain-google-genai"),
    ("google_genai", "client._api_client", "google-genai"),
    ("google_genai", "client._api_client._http_options", "google-genai"),
    ("google_genai", "client._api_client._async_httpx_client", "google-genai"),
)
"""Provider, path from its LangChain class, and the package that may change it."""

MODULES = [
    *ROOT.joinpath("serving", "backends").rglob("*.py"),
    *ROOT.joinpath("serving", "batches").rglob("*.py"),
]


@pytest.mark.usefixtures("hosted_allowed")
@pytest.mark.parametrize(("provider", "path", "package"), PRIVATE)
def test_what_requests_need_of_a_package_is_there(
    provider: str, path: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = facts_of(provider)
    monkeypatch.setenv(facts.key, "a-key")
    try:
        model, _ = chat_model(facts, ModelName(provider, MODELS[provider]), None)
        attrgetter(path)(model)
    except AttributeError as error:
        pytest.fail(f"{package} {version(package)} has no {path}, which serving/ needs: {error}")


@pytest.mark.parametrize("package", sorted({package for *_, package in PRIVATE}))
def test_packages_with_private_parts_in_use_are_pinned_to_a_minor_version(package: str) -> None:
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
    every = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    (pinned,) = [one for one in map(Requirement, every) if one.name == package]
    here = Version(version(package))
    assert here in pinned.specifier
    assert Version(f"{here.major}.{here.minor + 1}.0") not in pinned.specifier, f"{pinned} is too wide"


def _reached(module: Path) -> set[str]:
    """Private attributes that a module reads of other objects than its own."""
    return {
        node.attr
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }


def test_every_private_part_in_use_is_listed() -> None:
    assert set.union(*map(_reached, MODULES)) == {path.rpartition(".")[2] for _, path, _ in PRIVATE}
