"""OpenAI's chat completions as data: the body of a request, and the answers of a response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from serving.backends.backend import CallParameters
from serving.backends.reply_schemas import fixed_layout_grammar, without_keywords
from serving.errors import CallError
from serving.messages import UNKNOWN, Answer, Message, TokenLogprob, token_count
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
    reported = response.get("usage")
    usage = reported if isinstance(reported, dict) else {}
    read, total = (token_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    details = usage.get("prompt_tokens_details")
    cached = token_count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return [
        # The prompt is read once for all samples, so it is counted once.
        _answer(choice, read if index == 0 else 0, written, cached if index == 0 else 0)
        for index, (choice, written) in enumerate(zip(choices, shares(total, len(choices)), strict=True))
    ]


def shares(total: int, samples: int) -> list[int]:
    """The tokens of a request's replies, divided among them; `UNKNOWN` stays so."""
    if total == UNKNOWN:
        return [UNKNOWN] * samples
    share, rest = divmod(total, max(1, samples))
    return [share + (rest if index == 0 else 0) for index in range(samples)]


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
