from __future__ import annotations

from typing import Any

import pytest

from serving.backends.openai_protocol import answers
from serving.protocol.errors import CallError
from serving.protocol.messages import TokenLogprob


def choice(index: int, text: str | None, reason: str = "stop", **more: Any) -> dict[str, Any]:
    return {"index": index, "finish_reason": reason, "message": {"content": text}, **more}


def response(*choices: dict[str, Any], model: str = "tiny", **more: Any) -> dict[str, Any]:
    return {"model": model, "choices": list(choices), **more}


def test_choices_are_put_in_the_order_of_their_samples() -> None:
    shuffled = response(choice(2, "c"), choice(0, "a"), choice(1, "b"))
    assert [answer.text for answer in answers(shuffled, "tiny", 3)] == ["a", "b", "c"]


def test_the_shares_of_a_request_add_up_to_its_usage() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 11, "prompt_tokens_details": {"cached_tokens": 4}}
    shares = answers(response(*(choice(index, "a") for index in range(3)), usage=usage), "tiny", 3)
    assert [share.input_tokens for share in shares] == [9, 0, 0]
    assert [share.output_tokens for share in shares] == [5, 3, 3]
    assert [share.cached_tokens for share in shares] == [4, 0, 0]


@pytest.mark.parametrize("given", ["tinier", "other", "tiny/2", "TINY"])
def test_another_model_than_was_asked_is_refused(given: str) -> None:
    with pytest.raises(CallError, match=f"answered with model '{given}', not 'tiny'") as caught:
        answers(response(choice(0, "a"), model=given), "tiny", 1)
    assert not caught.value.retryable


@pytest.mark.parametrize("given", ["tiny", "tiny-2026-08-07", ""])
def test_the_model_itself_and_its_dated_snapshot_are_accepted(given: str) -> None:
    (answer,) = answers(response(choice(0, "a"), model=given), "tiny", 1)
    assert answer.text == "a"


def test_each_choice_refuses_for_itself() -> None:
    refusing = choice(1, None) | {"message": {"content": None, "refusal": "I cannot."}}
    first, second = answers(response(choice(0, "a"), refusing), "tiny", 2)
    assert (first.text, first.finish_reason) == ("a", "stop")
    assert (second.text, second.finish_reason) == ("I cannot.", "refusal")


def test_a_model_that_only_thought_has_said_nothing() -> None:
    (answer,) = answers(response(choice(0, None, "length")), "tiny", 1)
    assert (answer.text, answer.finish_reason) == ("", "length")


def test_a_list_of_text_and_thinking_is_taken_apart() -> None:
    content = [
        {
            "type": "thinking",
            "thinking": [{"type": "text", "text": "Let me "}, {"text": None}, {"text": "see."}],
        },
        {"type": "text", "text": "It "},
        {"type": "text", "text": "is."},
        {"type": "image", "text": "left out"},
    ]
    (answer,) = answers(response(choice(0, None) | {"message": {"content": content}}), "tiny", 1)
    assert (answer.text, answer.thinking) == ("It is.", "Let me see.")


def test_log_probabilities_are_those_of_the_choice() -> None:
    top = [{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": -2.5}]
    logprobs = {"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": top}]}
    (answer,) = answers(response(choice(0, "yes", logprobs=logprobs)), "tiny", 1)
    assert answer.logprobs == (TokenLogprob("yes", -0.1, (("yes", -0.1), ("no", -2.5))),)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        "text",
        {},
        {"choices": None},
        {"choices": [1]},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": "a"}}], "model": 5},
        {"choices": [{"message": {"content": "a"}, "logprobs": {"content": [{"token": "a"}]}}]},
    ],
)
def test_what_is_no_chat_completion_is_a_lost_connection(reply: object) -> None:
    with pytest.raises(CallError, match="not a chat completion") as caught:
        answers(reply, "tiny", 1)
    assert caught.value.error_class == "connection"
