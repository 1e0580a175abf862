"""How each hosted provider is asked: what its LangChain class takes, and what it can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from serving.backends.backend import CallParameters, Constraint
from serving.backends.langchain_model import Arguments
from serving.backends.openai_protocol import TOP_LOGPROBS, schema_fields
from serving.backends.strict_schema import without_keywords
from serving.reply import JsonSchema


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known of a hosted provider before anything is sent.

    Attributes:
        arguments: Keyword arguments of a request to its LangChain class.
        constraints: How it can be held to a schema, the best first.
        most_samples: Samples that one request can ask for.
        takes_seed: Whether it has a seed; whether that repeats a reply is for the probe to find out.
        logprobs: Whether it has log-probabilities and its LangChain class passes them on.
    """

    arguments: Arguments
    constraints: tuple[Constraint, ...]
    most_samples: int = 1
    takes_seed: bool = False
    logprobs: bool = False


def _openai(call: CallParameters) -> dict[str, Any]:
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


def _deepseek(call: CallParameters) -> dict[str, Any]:
    arguments = _openai(call)
    if call.schema is not None and call.constraint == "tool":
        schema = without_keywords(call.schema, ("uniqueItems", "minItems", "maxItems"))
        function = {"name": call.schema_name, "description": _USE, "strict": True, "parameters": schema}
        arguments["tools"] = [{"type": "function", "function": function}]
        arguments["tool_choice"] = {"type": "function", "function": {"name": call.schema_name}}
    return arguments


def _anthropic(call: CallParameters) -> dict[str, Any]:
    arguments: dict[str, Any] = {"temperature": call.temperature, "max_tokens": call.max_tokens}
    if call.schema is not None and call.constraint == "json_schema":
        # Goes out as `output_config.format`; LangChain leaves out what Anthropic cannot hold a reply to.
        arguments["response_format"] = {"type": "json_schema", "json_schema": {"schema": call.schema}}
    if call.schema is not None and call.constraint == "tool":
        arguments["tools"] = [_anthropic_tool(call.schema_name, call.schema)]
        arguments["tool_choice"] = {
            "type": "tool",
            "name": call.schema_name,
            "disable_parallel_tool_use": True,
        }
    return arguments


def _anthropic_tool(name: str, schema: JsonSchema) -> dict[str, Any]:
    return {"name": name, "description": _USE, "input_schema": schema}


def _google(call: CallParameters) -> dict[str, Any]:
    arguments: dict[str, Any] = {"temperature": call.temperature, "max_output_tokens": call.max_tokens}
    if len(call.samples) > 1:
        arguments["candidate_count"] = len(call.samples)
    if call.seed is not None:
        arguments["seed"] = call.seed
    if call.schema is not None and call.constraint in ("json_schema", "json_object"):
        arguments["response_mime_type"] = "application/json"
    if call.schema is not None and call.constraint == "json_schema":
        arguments["response_json_schema"] = without_keywords(call.schema, ("uniqueItems",))
    return arguments


_USE = "Gives the reply."

PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        _openai,
        ("json_schema", "json_object", "none"),
        most_samples=128,
        takes_seed=True,
        logprobs=True,
    ),
    "anthropic": Provider(_anthropic, ("json_schema", "tool", "none")),
    # The API has log-probabilities, and LangChain's class drops them.
    "google_genai": Provider(
        _google, ("json_schema", "json_object", "none"), most_samples=8, takes_seed=True
    ),
    "deepseek": Provider(_deepseek, ("tool", "json_object", "none"), logprobs=True),
}
