"""Thinking apart from replies."""

from __future__ import annotations

import pytest

from serving.protocol.messages import Answer, read_details, reply_details, with_counts
from serving.protocol.thinking import Thought, opens_thinking, split_thinking, widened


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Yes.", Thought("Yes.", "")),
        ("<think>so</think>\n\nYes.", Thought("Yes.", "so")),
        ("so</think>Yes.", Thought("Yes.", "so")),
        ("<think>one</think>two</think> Yes.", Thought("Yes.", "one</think>two")),
        ("<think>so and so", Thought("", "so and so")),
        ("\n <think>so", Thought("", "so")),
        ("so</think>", Thought("", "so")),
        ("The tag <think> is quoted", Thought("The tag <think> is quoted", "")),
    ],
)
def test_a_reply_begins_after_its_thinking(text: str, found: Thought) -> None:
    assert split_thinking(text) == found


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ("<|im_start|>user ready<|im_start|>assistant", False),
        ("<|im_start|>user ready<|im_start|>assistant <think> ", True),
        ("<|im_start|>user ready<|im_start|>assistant <think> </think>", False),
        ("Think between <think> and </think>. ready <think>", True),
    ],
)
def test_a_prompt_tells_whether_its_template_opens_the_thinking(prompt: str, opened: bool) -> None:
    assert opens_thinking(prompt) == opened


@pytest.mark.parametrize(("limit", "wider"), [(278, 16_000), (4_000, 16_000), (10_278, 41_112)])
def test_a_widened_limit_is_four_times_as_high_and_has_room(limit: int, wider: int) -> None:
    assert widened(limit) == wider


@pytest.mark.parametrize(
    "answer",
    [
        Answer("Yes.", "stop", 1, 2),
        Answer("Yes.", "stop", 1, 20, thinking_tokens=18, thinking="so"),
        Answer("", "length", 1, 20, thinking_tokens=20),
    ],
)
def test_details_come_back_as_they_were_stored(answer: Answer) -> None:
    details = read_details(reply_details(answer))
    assert details.get("thinking_tokens", 0) == answer.thinking_tokens
    assert details.get("thinking", "") == answer.thinking
    assert details["logprobs"] == answer.logprobs


def test_thinking_that_a_server_returns_and_does_not_count_is_estimated() -> None:
    (counted,) = with_counts([Answer("Yes.", "stop", 5, 40, thinking="so " * 50)], [], 100)
    assert (counted.output_tokens, counted.thinking_tokens) == (40, 39)
