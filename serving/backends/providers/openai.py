"""OpenAI, and servers that speak its protocol at an address of the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from serving.backends.backend import Entry
from serving.backends.hosted import HostedProvider, hosted, own_http_client
from serving.backends.openai_protocol import (
    OPENAI_EFFORTS,
    effort_fields,
    logprob_fields,
    sampling_fields,
    schema_fields,
)
from serving.protocol.request import AnyRequest
from serving.protocol.thinking import Effort


def openai_arguments(request: AnyRequest) -> dict[str, Any]:
    """Arguments of a request to LangChain's class and its subclasses."""
    arguments = {
        "max_tokens": request.max_tokens,
        **sampling_fields(request),
        **effort_fields(request),
        **logprob_fields(request),
    }
    if fields := schema_fields(request):
        # As `response_format` LangChain would parse the reply itself, and raise where it is cut or broken.
        arguments["extra_body"] = fields
    return arguments


def _openai_efforts(_name: str, levels: Sequence[str]) -> Mapping[Effort, str]:
    if not levels:
        return OPENAI_EFFORTS
    words: dict[Effort, str] = {**OPENAI_EFFORTS, "max": "max" if "max" in levels else "xhigh"}
    return {effort: word for effort, word in words.items() if word in levels}


FACTS = HostedProvider(
    name="openai",
    package="langchain-openai",
    key="OPENAI_API_KEY",
    arguments=openai_arguments,
    efforts=_openai_efforts,
    constraints=("json_schema", "json_object", "none"),
    max_samples=128,
    takes_seed=True,
    logprobs=True,
    # The Responses API has neither `n` nor a seed.
    settings=lambda: {**own_http_client(), "use_responses_api": False},
    speaks_openai=True,
    service="https://api.openai.com",
    service_variables=("OPENAI_API_BASE", "OPENAI_BASE_URL"),
    batches="serving.batches.providers.openai:openai_batches",
    families=("gpt-", "chatgpt-", "o1", "o3", "o4"),
    example="gpt-4.1",
    others=(
        Entry(
            "openai:NAME@http://HOST:8000/v1", "ready", "any server with OpenAI's protocol, such as llama.cpp"
        ),
        Entry("ollama:NAME", "ready", "the same, of Ollama on this machine"),
        Entry("lmstudio:NAME", "ready", "the same, of LM Studio on this machine"),
    ),
)
PROVIDER = hosted(FACTS)
