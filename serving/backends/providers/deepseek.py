"""DeepSeek."""

from __future__ import annotations

import os
from typing import Any

from serving.backends.hosted import TOOL_DESCRIPTION, HostedProvider, hosted, own_http_client
from serving.backends.providers.openai import openai_arguments
from serving.backends.reply_schemas import without_keywords
from serving.protocol.request import AnyRequest

BETA = "https://api.deepseek.com/beta"
"""Address at which DeepSeek constrains a tool's input to its schema; elsewhere it ignores `strict`."""


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


FACTS = HostedProvider(
    name="deepseek",
    package="langchain-deepseek",
    key="DEEPSEEK_API_KEY",
    arguments=_deepseek_arguments,
    efforts=lambda _name, _levels: {"off": "off", "low": "low", "high": "high", "max": "max"},
    constraints=("tool", "json_object", "none"),
    logprobs=True,
    settings=own_http_client,
    speaks_openai=True,
    tool_url=lambda: None if os.environ.get("DEEPSEEK_API_BASE") else BETA,
    service="https://api.deepseek.com",
    service_variables=("DEEPSEEK_API_BASE",),
    families=("deepseek",),
    example="deepseek-chat",
)
PROVIDER = hosted(FACTS)
