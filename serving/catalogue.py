"""What models can be named, and which of them are ready on this machine."""

from __future__ import annotations

import importlib.util
import os
from typing import NamedTuple

from serving.errors import ModelError
from serving.model_name import HOSTED_PACKAGES
from serving.vllm_server.find import find_vllm
from weights.registry import REGISTRY, is_ready


class Entry(NamedTuple):
    """A way to name a model."""

    model: str
    state: str
    description: str


_KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google_genai": "GOOGLE_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
}


def catalogue() -> list[Entry]:
    """All ways, those that need nothing first. Looks at this machine only."""
    entries = [_embedded(name) for name in REGISTRY]
    entries += [
        Entry("embedded:/path/to/model", _extra("torch", "embedded"), "a local Llama-like model, in process"),
        Entry(
            "vllm:NAME",
            _vllm(),
            "vLLM, started and ended by the run that uses it",
        ),
        Entry("vllm:NAME@http://HOST:8000/v1", "ready", "a vLLM server"),
        Entry("vllm-offline:NAME", _extra("vllm", "vllm"), "vLLM in this process, for batches"),
        Entry("openai:NAME@http://HOST:8000/v1", "ready", "any OpenAI-compatible server"),
    ]
    for provider, package in HOSTED_PACKAGES.items():
        entries.append(Entry(f"{provider}:NAME", _hosted(provider, package), f"hosted, by {package}"))
    return [
        *entries,
        Entry("scripted:replies.jsonl", "ready", "replies from a file, no model"),
        Entry("scripted:script.py:function", "ready", "replies from a function, no model"),
        Entry("scripted:auto", "ready", "valid replies made up from a hash, no model"),
    ]


def _embedded(name: str) -> Entry:
    state = _extra("torch", "embedded")
    if state == "ready" and not is_ready(name):
        state = f"not fetched: evigraph models pull {name}"
    packaged = REGISTRY[name]
    return Entry(
        f"embedded:{name}", state, f"in process, {packaged.megabytes} MB download, {packaged.licence}"
    )


def _vllm() -> str:
    try:
        return f"ready: {find_vllm()}"
    except ModelError as error:
        return str(error)


def _hosted(provider: str, package: str) -> str:
    if importlib.util.find_spec(package.replace("-", "_")) is None:
        return f"not installed: pip install {package}"
    return "ready" if os.environ.get(_KEYS[provider]) else f"needs {_KEYS[provider]}"


def _extra(module: str, extra: str) -> str:
    found = importlib.util.find_spec(module) is not None
    return "ready" if found else f"not installed: pip install 'evigraph[{extra}]'"
