"""OpenAI's chat completions as data: the body of a request, and the answers of a response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from serving.backends.backend import CallParameters
from serving.backends.reply_schemas import fixed_layout_grammar, without_keywords
from serving.errors import CallError
from serving.messages import Answer, Message, TokenLogprob
from serving.reply import JsonSchema

TOP_LOGPROBS = 5

TOP_CHOICES = 20
"""The most that OpenAI, DeepSeek and vLLM give: a choice that is not among them counts as less likely."""


def logprob_fields(call: CallParameters) -> dict[str, Any]:
    """The fields that ask for log-probabilities; none where the call wants none."""
    if not call.logprobs:
        return {}
    return {"logprobs": True, "top_logprobs": TOP_CHOICES if call.choices else TOP_LOGPROBS}


def request_body(model: str, messages: Sequence[Message], call: CallParameters) -> dict[str, Any]:
    """The JSON body of a request."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": message.role, "content": message.text} for message in messages],
        "temperature": call.temperature,
        "max_tokens": call.max_tokens,
    }
    if len(call.samples) > 1:
        body["n"] = len(call.samples)
    if call.seed is not None:
        body["seed"] = call.seed
    return body | logprob_fields(call) | schema_fields(call)


def schema_fields(call: CallParameters) -> dict[str, Any]:
    """The fields that constrain a reply to its schema."""
    if call.schema is None or call.constraint in ("none", "tool"):
        return {}
    if call.constraint == "json_object":
        return {"response_format": {"type": "json_object"}}
    grammar = fixed_layout_grammar(call.schema) if call.constraint == "grammar" else None
    if grammar is not None:
        return {"structured_outputs": {"grammar": grammar}}
    return {"response_format": _json_schema(call.schema_name, call.schema)}


def answers(response: Any, asked_model: str, samples: int) -> list[Answer]:
    """Read a response.

    Raises:
        CallError: It is no chat completion, or another model gave it.
    """
    try:
        return _answers(response, asked_model, samples)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise CallError("connection", "the server's reply is no chat completion") from None


def _answers(response: Any, asked_model: str, samples: int) -> list[Answer]:
    given = response.get("model") or asked_model
    if given != asked_model and not given.startswith(f"{asked_model}-"):
        # A dated snapshot carries the name that was asked for; anything else is not the model of this run.
        raise CallError("internal", f"the server answered with model {given!r}, not {asked_model!r}")
    choices = sorted(response["choices"], key=lambda choice: choice.get("index", 0))[:samples]
    usage = response.get("usage") or {}
    written = [0] * len(choices)
    if choices:
        share, rest = divmod(int(usage.get("completion_tokens") or 0), len(choices))
        written = [share + (rest if index == 0 else 0) for index in range(len(choices))]
    details = usage.get("prompt_tokens_details") or {}
    return [
        _answer(
            choice,
            # The prompt is read once for all samples, so it is counted once.
            int(usage.get("prompt_tokens") or 0) if index == 0 else 0,
            written[index],
            int(details.get("cached_tokens") or 0) if index == 0 else 0,
        )
        for index, choice in enumerate(choices)
    ]


def _answer(choice: Any, read: int, written: int, cached: int) -> Answer:
    message = choice["message"]
    refusal = message.get("refusal")
    return Answer(
        text=str(refusal or message.get("content") or ""),
        finish_reason="refusal" if refusal else str(choice.get("finish_reason") or ""),
        input_tokens=read,
        output_tokens=written,
        cached_tokens=cached,
        logprobs=token_logprobs(choice.get("logprobs")),
    )


def token_logprobs(logprobs: Any) -> tuple[TokenLogprob, ...]:
    """OpenAI's `logprobs` of a choice; empty where there are none."""
    content = (logprobs or {}).get("content") or ()
    return tuple(
        TokenLogprob(
            entry["token"],
            entry["logprob"],
            tuple((top["token"], top["logprob"]) for top in entry.get("top_logprobs") or ()),
        )
        for entry in content
    )


def _json_schema(name: str, schema: JsonSchema) -> dict[str, Any]:
    # Strict mode answers `uniqueItems` with 400.
    strict = without_keywords(schema, ("uniqueItems",))
    return {"type": "json_schema", "json_schema": {"name": name, "schema": strict, "strict": True}}
