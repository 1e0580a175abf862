"""Anthropic."""

from __future__ import annotations

from typing import Any

from serving.backends.backend import CallParameters
from serving.backends.hosted import TOOL_DESCRIPTION, HostedProvider, hosted


def _arguments(call: CallParameters) -> dict[str, Any]:
    arguments: dict[str, Any] = {"temperature": call.temperature, "max_tokens": call.max_tokens}
    if call.schema is not None and call.constraint == "json_schema":
        # Goes out as `output_config.format`; LangChain leaves out what Anthropic cannot hold a reply to.
        arguments["response_format"] = {"type": "json_schema", "json_schema": {"schema": call.schema}}
    if call.schema is not None and call.constraint == "tool":
        arguments["tools"] = [
            {"name": call.schema_name, "description": TOOL_DESCRIPTION, "input_schema": call.schema}
        ]
        arguments["tool_choice"] = {
            "type": "tool",
            "name": call.schema_name,
            "disable_parallel_tool_use": True,
        }
    return arguments


ANTHROPIC = hosted(
    HostedProvider(
        name="anthropic",
        package="langchain-anthropic",
        key="ANTHROPIC_API_KEY",
        other_keys=("ANTHROPIC_AUTH_TOKEN",),
        checks_key=False,
        arguments=_arguments,
        constraints=("json_schema", "tool", "none"),
    )
)
