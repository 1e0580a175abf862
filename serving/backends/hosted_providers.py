"""The hosted providers: for each, how a request is written, and what is known of it beforehand."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from serving.backends.backend import Entry
from serving.backends.hosted import TOOL_DESCRIPTION, HostedProvider, hosted, own_http_client
from serving.backends.limited_httpx import client_settings
from serving.backends.openai_protocol import OPENAI_EFFORTS, effort_fields, logprob_fields, schema_fields
from serving.backends.reply_schemas import without_keywords
from serving.policy.gate import demand_route
from serving.protocol.abilities import Abilities
from serving.protocol.request import AnyRequest
from serving.protocol.thinking import EFFORTS, HEADROOM, Effort


def openai_arguments(request: AnyRequest) -> dict[str, Any]:
    """Of a request to LangChain's class, and to those derived from it."""
    arguments: dict[str, Any] = {"max_tokens": request.max_tokens}
    if request.temperature is not None:
        arguments["temperature"] = request.temperature
    if len(request.samples) > 1:
        arguments["n"] = len(request.samples)
    if request.seed is not None:
        arguments["seed"] = request.seed
    arguments |= effort_fields(request) | logprob_fields(request)
    if fields := schema_fields(request):
        # As `response_format` LangChain would parse the reply itself, and raise where it is cut or broken.
        arguments["extra_body"] = fields
    return arguments


def _openai_efforts(_name: str, levels: Sequence[str]) -> Mapping[Effort, str]:
    if not levels:
        return OPENAI_EFFORTS
    words: dict[Effort, str] = {**OPENAI_EFFORTS, "max": "max" if "max" in levels else "xhigh"}
    return {effort: word for effort, word in words.items() if word in levels}


OPENAI_FACTS = HostedProvider(
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
)
OPENAI = hosted(
    OPENAI_FACTS,
    Entry("openai:NAME@http://HOST:8000/v1", "ready", "any server with OpenAI's protocol, such as llama.cpp"),
    Entry("ollama:NAME", "ready", "the same, of Ollama on this machine"),
    Entry("lmstudio:NAME", "ready", "the same, of LM Studio on this machine"),
)


def _anthropic_efforts(name: str, levels: Sequence[str]) -> Mapping[Effort, str]:
    """Levels, or budgets in tokens for models before 4.6, which take no adaptive thinking."""
    if "max" in levels or not re.search(r"-(3|4)(-[0-5])?(-\d{8})?$", name):
        words: dict[Effort, str] = {"low": "low", "medium": "medium", "high": "high", "max": "max"}
    else:
        words = {effort: str(HEADROOM[effort]) for effort in EFFORTS[1:]}
    return {"off": "off", **words}


async def _describe_anthropic(model: Any, name: str) -> Abilities:
    found = await model._async_client.models.retrieve(name)
    stated = Abilities(max_output=found.max_tokens)
    if (can := found.capabilities) is None:
        return stated
    stated.thinks = can.thinking.supported
    kinds, efforts = can.thinking.types, can.effort
    words: dict[Effort, str] = {}
    if kinds.disabled.supported:
        words["off"] = "off"
    if kinds.adaptive.supported:
        levels = {one for one in ("low", "medium", "high", "max") if getattr(efforts, one).supported}
        words |= {effort: effort for effort in EFFORTS if effort in levels}
    elif kinds.enabled.supported:
        words |= {effort: str(HEADROOM[effort]) for effort in EFFORTS[1:]}
    stated.efforts = words
    return stated


def _anthropic_thinking(request: AnyRequest) -> dict[str, Any]:
    if request.effort is None:
        return {}
    if request.effort == "off":
        return {"thinking": {"type": "disabled"}}
    if request.effort_word.isdigit():
        return {"thinking": {"type": "enabled", "budget_tokens": int(request.effort_word)}}
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": request.effort_word}}


def _anthropic_arguments(request: AnyRequest) -> dict[str, Any]:
    arguments: dict[str, Any] = {"max_tokens": request.max_tokens, **_anthropic_thinking(request)}
    if request.temperature is not None:
        arguments["temperature"] = request.temperature
    if request.schema is not None and request.constraint == "json_schema":
        # Goes out as `output_config.format`; LangChain leaves out what Anthropic cannot hold a reply to.
        arguments["response_format"] = {"type": "json_schema", "json_schema": {"schema": request.schema}}
    if request.schema is not None and request.constraint == "tool":
        arguments["tools"] = [
            {"name": request.reply.name, "description": TOOL_DESCRIPTION, "input_schema": request.schema}
        ]
        arguments["tool_choice"] = {
            "type": "tool",
            "name": request.reply.name,
            "disable_parallel_tool_use": True,
        }
    return arguments


def _own_anthropic_client(model: Any) -> Any:
    """LangChain's class takes no HTTP client; its own is shared by all event loops and follows redirects."""
    from httpx2 import AsyncClient, AsyncHTTPTransport

    client = AsyncClient(**client_settings(AsyncHTTPTransport))
    # A cached property: what is stored under its name is what it gives.
    vars(model)["_async_client"] = model._async_client.copy(http_client=client)
    return client


ANTHROPIC_FACTS = HostedProvider(
    name="anthropic",
    package="langchain-anthropic",
    key="ANTHROPIC_API_KEY",
    other_keys=("ANTHROPIC_AUTH_TOKEN",),
    arguments=_anthropic_arguments,
    efforts=_anthropic_efforts,
    constraints=("json_schema", "tool", "none"),
    own_client=_own_anthropic_client,
    describe=_describe_anthropic,
    service="https://api.anthropic.com",
    service_variables=("ANTHROPIC_API_URL", "ANTHROPIC_BASE_URL"),
)
ANTHROPIC = hosted(ANTHROPIC_FACTS)


def _google_efforts(name: str, levels: Sequence[str]) -> Mapping[Effort, str]:
    """Levels, or budgets in tokens for Gemini 2.5, whose Pro always thinks."""
    if not name.startswith("gemini-2.5"):
        words = levels or ("minimal", "low", "medium", "high")
        return {effort: effort for effort in EFFORTS if effort in words}
    least, most = (128, 32_768) if "pro" in name else (512, 24_576)
    budgets = {effort: str(min(max(HEADROOM[effort] // 2, least), most)) for effort in EFFORTS[1:]}
    return budgets if "pro" in name else {"off": "0", **budgets}


def _google_arguments(request: AnyRequest) -> dict[str, Any]:
    arguments: dict[str, Any] = {"max_output_tokens": request.max_tokens}
    if request.temperature is not None:
        arguments["temperature"] = request.temperature
    if request.effort is not None and request.effort_word.isdigit():
        arguments["thinking_budget"] = int(request.effort_word)
    elif request.effort is not None:
        arguments["thinking_level"] = request.effort_word
    if len(request.samples) > 1:
        arguments["candidate_count"] = len(request.samples)
    if request.seed is not None:
        arguments["seed"] = request.seed
    if request.schema is not None and request.constraint in ("json_schema", "json_object"):
        arguments["response_mime_type"] = "application/json"
    if request.schema is not None and request.constraint == "json_schema":
        arguments["response_json_schema"] = without_keywords(request.schema, ("uniqueItems",))
    return arguments


def _google_settings() -> dict[str, Any]:
    # The class makes a client for requests without an event loop, too, which none are sent by.
    return {"client_args": {"follow_redirects": False}}


def _own_google_client(model: Any) -> Any:
    """Google's own client is aiohttp's, where that is installed, and takes replies of any size.

    Raises:
        PolicyError: Requests would go to a host that may see no text.
    """
    import httpx

    requests = model.client._api_client
    # What its variables and files have led to, which the gate has asked about as far as it knew them.
    demand_route(str(requests._http_options.base_url), "model of google_genai")
    client = httpx.AsyncClient(**client_settings(httpx.AsyncHTTPTransport))
    requests._http_options.httpx_async_client = requests._async_httpx_client = client
    return client


async def _describe_google(model: Any, name: str) -> Abilities:
    found = await model.client.aio.models.get(model=name)
    return Abilities(thinks=bool(found.thinking), max_output=found.output_token_limit)


def _vertex() -> str | None:
    """The address of Vertex AI where its variables choose that, as Google's client reads them."""
    chosen = os.environ.get("GOOGLE_GENAI_USE_ENTERPRISE") or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "")
    if chosen.lower() not in ("true", "1", "yes"):
        return None
    place = os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    host = "aiplatform.googleapis.com" if place == "global" else f"{place}-aiplatform.googleapis.com"
    return os.environ.get("GOOGLE_VERTEX_BASE_URL") or f"https://{host}"


GOOGLE_GENAI_FACTS = HostedProvider(
    name="google_genai",
    package="langchain-google-genai",
    key="GOOGLE_API_KEY",
    other_keys=("GEMINI_API_KEY",),
    arguments=_google_arguments,
    efforts=_google_efforts,
    # The API has log-probabilities, and LangChain's class drops them.
    constraints=("json_schema", "json_object", "none"),
    max_samples=8,
    takes_seed=True,
    settings=_google_settings,
    own_client=_own_google_client,
    describe=_describe_google,
    service="https://generativelanguage.googleapis.com",
    service_variables=("GOOGLE_GEMINI_BASE_URL",),
    other_service=_vertex,
)
GOOGLE_GENAI = hosted(GOOGLE_GENAI_FACTS)


BETA = "https://api.deepseek.com/beta"
"""Where DeepSeek constrains a tool's input to its schema; elsewhere it ignores `strict`."""


def _deepseek_efforts(_name: str, _levels: Sequence[str]) -> Mapping[Effort, str]:
    return {"off": "off", "low": "low", "high": "high", "max": "max"}


def _deepseek_arguments(request: AnyRequest) -> dict[str, Any]:
    arguments = openai_arguments(request)
    if request.effort is not None:
        kind = "disabled" if request.effort == "off" else "enabled"
        arguments["extra_body"] = {**arguments.get("extra_body", {}), "thinking": {"type": kind}}
    if request.effort == "off":
        del arguments["reasoning_effort"]
    if request.schema is not None and request.constraint == "tool":
        schema = without_keywords(request.schema, ("uniqueItems", "minItems", "maxItems"))
        function = {
            "name": request.reply.name,
            "description": TOOL_DESCRIPTION,
            "strict": True,
            "parameters": schema,
        }
        arguments["tools"] = [{"type": "function", "function": function}]
        arguments["tool_choice"] = {"type": "function", "function": {"name": request.reply.name}}
    return arguments


DEEPSEEK_FACTS = HostedProvider(
    name="deepseek",
    package="langchain-deepseek",
    key="DEEPSEEK_API_KEY",
    arguments=_deepseek_arguments,
    efforts=_deepseek_efforts,
    constraints=("tool", "json_object", "none"),
    logprobs=True,
    settings=own_http_client,
    speaks_openai=True,
    tool_url=lambda: None if os.environ.get("DEEPSEEK_API_BASE") else BETA,
    service="https://api.deepseek.com",
    service_variables=("DEEPSEEK_API_BASE",),
)
DEEPSEEK = hosted(DEEPSEEK_FACTS)

SPEAK_OPENAI = frozenset(
    one.name
    for one in (OPENAI_FACTS, ANTHROPIC_FACTS, GOOGLE_GENAI_FACTS, DEEPSEEK_FACTS)
    if one.speaks_openai
)
"""Providers whose names, with an address, mean a server with OpenAI's protocol."""
