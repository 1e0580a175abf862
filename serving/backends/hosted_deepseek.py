"""DeepSeek: OpenAI's protocol, with strict tools at an address of their own."""

from __future__ import annotations

import os
from typing import Any

from serving.backends.backend import CallParameters
from serving.backends.hosted import TOOL_DESCRIPTION, HostedProvider, hosted, own_http_client
from serving.backends.hosted_openai import openai_arguments
from serving.backends.reply_schemas import without_keywords

BETA = "https://api.deepseek.com/beta"
"""Where DeepSeek constrains a tool's input to its schema; elsewhere it ignores `strict`."""


def _arguments(call: CallParameters) -> dict[str, Any]:
    arguments = openai_arguments(call)
    if call.schema is not None and call.constraint == "tool":
        schema = without_keywords(call.schema, ("uniqueItems", "minItems", "maxItems"))
        function = {
            "name": call.schema_name,
            "description": TOOL_DESCRIPTION,
            "strict": True,
            "parameters": schema,
        }
        arguments["tools"] = [{"type": "function", "function": function}]
        arguments["tool_choice"] = {"type": "function", "function": {"name": call.schema_name}}
    return arguments


DEEPSEEK = hosted(
    HostedProvider(
        name="deepseek",
        package="langchain-deepseek",
        key="DEEPSEEK_API_KEY",
        arguments=_arguments,
        constraints=("tool", "json_object", "none"),
        logprobs=True,
        settings=own_http_client,
        speaks_openai=True,
        tool_url=lambda: None if os.environ.get("DEEPSEEK_API_BASE") else BETA,
    )
)
