"""OpenAI's chat completions as data: the body of a request, and the answers of a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serving.backends.reply_schemas import fixed_layout_grammar, without_keywords
from serving.protocol.errors import CallError
from serving.protocol.messages import UNKNOWN, Answer, TokenLogprob, token_count
from serving.protocol.request import AnyRequest
from serving.protocol.thinking import Effort, Thought, split_thinking

TOP_LOGPROBS = 5

TOP_CHOICES = 20
"""The most that OpenAI, DeepSeek and vLLM give: a choice that is not among them counts as less likely."""


def logprob_fields(request: AnyRequest) -> dict[str, Any]:
    """The fields that ask for log-probabilities; none where the call wants none."""
    if not request.logprobs:
        return {}
    return {"logprobs": True, "top_logprobs": TOP_CHOICES if request.choices else TOP_LOGPROBS}


def sampling_fields(request: AnyRequest) -> dict[str, Any]:
    """Temperature, number of samples and seed, as far as the call has them."""
    samples = len(request.samples)
    fields = {
        "temperature": request.temperature,
        "n": samples if samples > 1 else None,
        "seed": request.seed,
    }
    return {name: value for name, value in fields.items() if value is not None}


def request_body(model: str, request: AnyRequest) -> dict[str, Any]:
    """The JSON body of a request, without the fields of its effort, which servers differ in."""
    return {
        "model": model,
        "messages": [{"role": message.role, "content": message.text} for message in request.messages],
        request.limit_field: request.max_tokens,
        **sampling_fields(request),
        **logprob_fields(request),
        **schema_fields(request),
    }


OPENAI_EFFORTS: Mapping[Effort, str] = {
    "off": "none",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "xhigh",
}
"""OpenAI's words for effort; newer models have `max` above `xhigh`."""

THINKING_SWITCHES = ("enable_thinking", "thinking")
"""Variables by which chat templates switch thinking on and off: those of Qwen3 and of DeepSeek V3.1."""


def effort_fields(request: AnyRequest) -> dict[str, Any]:
    """The fields that set how much a model thinks; none if the call leaves that to the server."""
    return {} if request.effort is None else {"reasoning_effort": request.effort_word}


def vllm_effort_fields(request: AnyRequest) -> dict[str, Any]:
    """As `effort_fields`, for vLLM, which passes the switch of a chat template on."""
    if request.effort is None:
        return {}
    switches = {"chat_template_kwargs": dict.fromkeys(THINKING_SWITCHES, request.effort != "off")}
    # Older versions know no effort `none`.
    return switches if request.effort == "off" else switches | effort_fields(request)


def schema_fields(request: AnyRequest) -> dict[str, Any]:
    """The fields that constrain a reply to its schema."""
    if request.schema is None or request.constraint in ("none", "tool"):
        return {}
    if request.constraint == "json_object":
        return {"response_format": {"type": "json_object"}}
    if request.constraint == "object_schema":
        return {"response_format": {"type": "json_object", "schema": request.schema}}
    grammar = fixed_layout_grammar(request.schema) if request.constraint == "grammar" else None
    if grammar is not None:
        return {"structured_outputs": {"grammar": grammar}}
    # Strict mode answers `uniqueItems` with 400.
    schema = without_keywords(request.schema, ("uniqueItems",))
    strict = {"name": request.reply.name, "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": strict}}


def answers(response: Any, asked_model: str, samples: int) -> list[Answer]:
    """Read a response.

    Raises:
        CallError: It is not a chat completion, or is from another model.
    """
    try:
        return _answers(response, asked_model, samples)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise CallError("connection", "the server's reply is not a chat completion") from None


def _answers(response: Any, asked_model: str, samples: int) -> list[Answer]:
    given = response.get("model") or asked_model
    bare = given.removeprefix("openai/")
    if bare != asked_model.removeprefix("openai/") and not bare.startswith(
        (f"{asked_model}-", f"{asked_model}@")
    ):
        # A dated snapshot carries the name that was asked for, as does a revision (`transformers serve`);
        # anything else is not the model of this run.
        raise CallError("internal", f"the server answered with model {given!r}, not {asked_model!r}")
    choices = sorted(response["choices"], key=lambda choice: choice.get("index", 0))[:samples]
    reported = response.get("usage")
    usage = reported if isinstance(reported, dict) else {}
    read, total = _read_and_written(usage)
    thought = token_count(_part(usage, "completion_tokens_details").get("reasoning_tokens"))
    cached = max(0, token_count(_part(usage, "prompt_tokens_details").get("cached_tokens")))
    return [
        # The prompt is read once for all samples, so it is counted once.
        _answer(choice, read if index == 0 else 0, written, cached if index == 0 else 0, thinking)
        for index, (choice, written, thinking) in enumerate(
            zip(choices, shares(total, len(choices)), shares(max(0, thought), len(choices)), strict=True)
        )
    ]


def _part(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = usage.get(name)
    return details if isinstance(details, dict) else {}


def _read_and_written(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of prompt and replies; xAI leaves thinking out of the latter, and has it in the total."""
    read, written, total = (
        token_count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    return read, written if UNKNOWN in (read, written) else max(written, total - read)


def shares(total: int, samples: int) -> list[int]:
    """The tokens of a request's replies, divided among them; `UNKNOWN` stays so."""
    if total == UNKNOWN:
        return [UNKNOWN] * samples
    share, rest = divmod(total, max(1, samples))
    return [share + (rest if index == 0 else 0) for index in range(samples)]


def _answer(choice: Any, read: int, written: int, cached: int, thought: int) -> Answer:
    message = choice["message"]
    refusal = message.get("refusal")
    text, thinking = _content(message.get("content"))
    # vLLM and OpenRouter have the first name, DeepSeek and earlier versions of vLLM the second.
    thinking = str(message.get("reasoning") or message.get("reasoning_content") or thinking)
    reason = str(choice.get("finish_reason") or "")
    if not text and not refusal and message.get("content") is None and thinking:
        # Some servers end such a reply with "stop"; a constrained decoder that only thought has written none.
        reason = "length"
    return Answer(
        text=str(refusal or text),
        finish_reason="refusal" if refusal else reason,
        input_tokens=read,
        output_tokens=written,
        cached_tokens=cached,
        logprobs=token_logprobs(choice.get("logprobs")),
        thinking_tokens=thought,
        thinking=thinking,
    )


def _content(content: Any) -> Thought:
    """The text of a message and the thinking in it; Mistral sends a list of both."""
    if not isinstance(content, list):
        return split_thinking(str(content or ""))
    texts: dict[str, list[str]] = {"text": [], "thinking": []}
    for part in content:
        for kind, found in texts.items():
            if part.get("type") == kind:
                inner = part.get(kind)
                parts = inner if isinstance(inner, list) else [{"text": inner}]
                found += [str(one.get("text") or "") for one in parts]
    return Thought("".join(texts["text"]), "".join(texts["thinking"]))


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
