"""OpenAI, at its own service or at any server with its protocol."""

from __future__ import annotations

from typing import Any

from serving.backends.backend import CallParameters, Entry
from serving.backends.hosted import HostedProvider, hosted, own_http_client
from serving.backends.openai_protocol import TOP_LOGPROBS, schema_fields


def openai_arguments(call: CallParameters) -> dict[str, Any]:
    """Of a request to LangChain's class, and to those derived from it."""
    arguments: dict[str, Any] = {"temperature": call.temperature, "max_tokens": call.max_tokens}
    if len(call.samples) > 1:
        arguments["n"] = len(call.samples)
    if call.seed is not None:
        arguments["seed"] = call.seed
    if call.logprobs:
        arguments |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    if fields := schema_fields(call):
        # As `response_format` LangChain would parse the reply itself, and raise where it is cut or broken.
        arguments["extra_body"] = fields
    return arguments


OPENAI = hosted(
    HostedProvider(
        name="openai",
        package="langchain-openai",
        key="OPENAI_API_KEY",
        arguments=openai_arguments,
        constraints=("json_schema", "json_object", "none"),
        max_samples=128,
        takes_seed=True,
        logprobs=True,
        # The Responses API has neither `n` nor a seed.
        settings=lambda: {**own_http_client(), "use_responses_api": False},
        speaks_openai=True,
    ),
    Entry("openai:NAME@http://HOST:8000/v1", "ready", "any OpenAI-compatible server"),
)
