"""Anthropic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from serving.backends.hosted import TOOL_DESCRIPTION, HostedProvider, hosted
from serving.backends.limited_httpx import client_settings
from serving.protocol.abilities import Abilities
from serving.protocol.request import AnyRequest
from serving.protocol.thinking import EFFORTS, HEADROOM, Effort


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
    # A cached property: storing under its name sets its value.
    vars(model)["_async_client"] = model._async_client.copy(http_client=client)
    return client


FACTS = HostedProvider(
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
    batches="serving.batches.providers.anthropic:AnthropicBatches",
    families=("claude",),
    example="claude-opus-4-5",
)
PROVIDER = hosted(FACTS)
