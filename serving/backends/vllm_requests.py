"""vLLM's own requests and outputs as ours; needs no vLLM."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from serving.backends.backend import CallParameters
from serving.backends.fixed_layout import fixed_layout_grammar
from serving.backends.openai_protocol import TOP_LOGPROBS
from serving.errors import CallError
from serving.journal import Answer
from serving.reply import TokenLogprob

_COMPLETE = frozenset({"stop", "length", "repetition"})


class Likely(Protocol):
    """A token at a place of the reply; `rank` begins with 1 for the likeliest."""

    logprob: float
    rank: int | None
    decoded_token: str | None


class Completion(Protocol):
    """One sample."""

    index: int
    text: str
    token_ids: Sequence[int]
    logprobs: Sequence[Mapping[int, Likely]] | None
    finish_reason: str | None


class Output(Protocol):
    """All samples of a request."""

    outputs: Sequence[Completion]
    prompt_token_ids: Sequence[int] | None
    num_cached_tokens: int | None


def sampling_fields(call: CallParameters, model_defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of vLLM's `SamplingParams`, but for those that are vLLM's own types.

    Args:
        call: What is asked for.
        model_defaults: What the model's makers recommend (`top_p` and the like); vLLM's server uses it too.
    """
    fields = {
        **model_defaults,
        "n": len(call.samples),
        "temperature": call.temperature,
        "max_tokens": call.max_tokens,
    }
    if call.seed is not None:
        fields["seed"] = call.seed
    if call.logprobs:
        fields["logprobs"] = TOP_LOGPROBS
    return fields


def constraint_fields(call: CallParameters) -> dict[str, Any]:
    """The argument of vLLM's `StructuredOutputsParams` that holds a reply to its schema, empty for none."""
    if call.schema is None or call.constraint in ("none", "tool"):
        return {}
    if call.constraint == "json_object":
        return {"json_object": True}
    grammar = fixed_layout_grammar(call.schema) if call.constraint == "grammar" else None
    return {"json": call.schema} if grammar is None else {"grammar": grammar}


def answers(output: Output, unwritten: Collection[int]) -> list[Answer]:
    """The samples of a request, in order.

    Args:
        output: The request's last and only output.
        unwritten: Ids of tokens that stand for no text, such as the one that ends a reply.

    Raises:
        CallError: The engine broke a sample off; it may be asked for again.
    """
    samples = sorted(output.outputs, key=lambda sample: sample.index)
    broken = next((sample.finish_reason for sample in samples if sample.finish_reason not in _COMPLETE), "")
    if broken != "":
        raise CallError("connection", f"vLLM's engine broke the request off ({broken or 'no reason given'})")
    return [
        Answer(
            text=sample.text,
            finish_reason=str(sample.finish_reason),
            # The prompt is read once for all samples, so it is counted once.
            input_tokens=len(output.prompt_token_ids or ()) if position == 0 else 0,
            output_tokens=len(sample.token_ids),
            cached_tokens=(output.num_cached_tokens or 0) if position == 0 else 0,
            logprobs=_logprobs(sample, unwritten),
        )
        for position, sample in enumerate(samples)
    ]


def _logprobs(sample: Completion, unwritten: Collection[int]) -> tuple[TokenLogprob, ...]:
    return tuple(
        TokenLogprob(place[token].decoded_token or "", place[token].logprob, _top(place))
        for token, place in zip(sample.token_ids, sample.logprobs or (), strict=False)
        if token not in unwritten
    )


def _top(place: Mapping[int, Likely]) -> tuple[tuple[str, float], ...]:
    """The likeliest tokens; the one that was written stands among them only if it is one."""
    likely = [token for token in place.values() if token.rank is not None and token.rank <= TOP_LOGPROBS]
    likely.sort(key=lambda token: token.rank or 0)
    return tuple((token.decoded_token or "", token.logprob) for token in likely)
