"""vLLM's own requests and outputs, without vLLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from serving.backends.backend import CallParameters
from serving.backends.vllm_engine import Completion, Likely, answers, constraint_fields, sampling_fields
from serving.errors import CallError
from tests.serving.asks import SCHEMA

CALL = CallParameters("label", "7", (0, 1, 2), 0.7, 40, SCHEMA, "word", constraint="grammar")
END = 2


@dataclass
class Token:
    logprob: float
    rank: int | None
    decoded_token: str | None


@dataclass
class Sample:
    index: int
    text: str
    token_ids: Sequence[int]
    finish_reason: str | None = "stop"
    logprobs: Sequence[Mapping[int, Likely]] | None = None


@dataclass
class Answered:
    outputs: Sequence[Completion]
    prompt_token_ids: Sequence[int] | None = field(default_factory=lambda: [1, 5, 6, 7])
    num_cached_tokens: int | None = 3


def test_all_samples_are_one_request() -> None:
    assert sampling_fields(CALL, {}) == {"n": 3, "temperature": 0.7, "max_tokens": 40}


def test_the_call_overrides_what_the_model_recommends() -> None:
    fields = sampling_fields(CALL, {"top_p": 0.8, "temperature": 0.1})
    assert (fields["top_p"], fields["temperature"]) == (0.8, 0.7)


def test_a_seed_and_logprobs_are_sent_only_when_asked_for() -> None:
    asked = sampling_fields(replace(CALL, seed=5, logprobs=True), {})
    assert (asked["seed"], asked["logprobs"]) == (5, 5)
    assert not {"seed", "logprobs"} & set(sampling_fields(CALL, {}))


def test_a_flat_schema_becomes_a_grammar() -> None:
    (grammar,) = constraint_fields(CALL).values()
    assert '"{\\"word\\": "' in grammar


def test_another_schema_stays_json() -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}}
    assert constraint_fields(replace(CALL, schema=schema)) == {"json": schema}


def test_each_weaker_constraint_is_sent_as_it_is() -> None:
    assert constraint_fields(replace(CALL, constraint="json_schema")) == {"json": SCHEMA}
    assert constraint_fields(replace(CALL, constraint="json_object")) == {"json_object": True}
    assert constraint_fields(replace(CALL, constraint="none")) == {}
    assert constraint_fields(replace(CALL, schema=None)) == {}


def test_the_prompt_is_counted_once_for_all_samples() -> None:
    read = answers(Answered([Sample(1, "b", [9]), Sample(0, "a", [8, 9])]), ())
    assert [(a.text, a.input_tokens, a.output_tokens, a.cached_tokens) for a in read] == [
        ("a", 4, 2, 3),
        ("b", 0, 1, 0),
    ]


def test_a_cut_reply_says_so() -> None:
    (answer,) = answers(Answered([Sample(0, "a", [8], "length")]), ())
    assert answer.finish_reason == "length"


@pytest.mark.parametrize("reason", ["abort", "error", None])
def test_a_sample_that_was_broken_off_is_no_answer(reason: str | None) -> None:
    with pytest.raises(CallError, match="broke the request off") as caught:
        answers(Answered([Sample(0, "a", [8]), Sample(1, "hal", [9], reason)]), ())
    assert caught.value.error_class == "connection"
    assert caught.value.retryable


def test_logprobs_leave_out_the_token_that_ends_the_reply() -> None:
    first = {8: Token(-2.5, 7, "yes"), 9: Token(-0.5, 1, "no"), 4: Token(-1.0, 2, "so")}
    last = {END: Token(-0.1, 1, "<|im_end|>")}
    (answer,) = answers(Answered([Sample(0, "yes", [8, END], logprobs=[first, last])]), {END})
    (token,) = answer.logprobs
    assert (token.token, token.logprob) == ("yes", -2.5)
    assert token.top == (("no", -0.5), ("so", -1.0))
