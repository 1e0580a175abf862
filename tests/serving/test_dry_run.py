from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from serving.protocol.errors import CallError
from serving.protocol.messages import Message
from serving.requests.dry_run import TokenCounter, options_sent
from tests.serving.asks import as_sent

PROMPT = (Message("user", "one two three"),)


class Tokenizer:
    """Words, and `marks` tokens around each turn."""

    def __init__(self, marks: int = 0, failures: int = 0) -> None:
        self.marks = marks
        self.failures = failures
        self.asked = 0

    async def __call__(self, messages: Sequence[Message]) -> int:
        self.asked += 1
        if self.asked <= self.failures:
            raise CallError("connection", "gone")
        return sum(len(message.text.split()) + self.marks for message in messages)


async def test_a_reply_is_its_words_and_the_token_that_ends_its_turn() -> None:
    assert await TokenCounter(Tokenizer(marks=4)).reply("no sign of it") == (5, True)


async def test_a_template_without_marks_ends_a_reply_with_nothing() -> None:
    assert await TokenCounter(Tokenizer()).reply("no sign of it") == (4, True)


async def test_the_same_text_is_counted_once() -> None:
    tokenizer = Tokenizer()
    counter = TokenCounter(tokenizer)
    for _ in range(3):
        await counter.conversation(PROMPT)
        await counter.reply("no")
    assert tokenizer.asked == 4


async def test_the_same_words_by_another_role_are_another_text() -> None:
    tokenizer = Tokenizer()
    counter = TokenCounter(tokenizer)
    await counter.conversation(PROMPT)
    await counter.conversation([Message("system", PROMPT[0].text)])
    assert tokenizer.asked == 2


async def test_the_oldest_count_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.requests.dry_run._REMEMBERED", 2)
    tokenizer = Tokenizer()
    counter = TokenCounter(tokenizer)
    for text in ("a", "b", "a", "c", "a", "b"):
        await counter.conversation([Message("user", text)])
    assert tokenizer.asked == 4


def test_the_options_of_a_request_are_told_in_one_line() -> None:
    assert options_sent(as_sent(temperature=None)) == "max_tokens 40, no temperature"
    asked = as_sent({}, temperature=0.7, seed=1, logprobs=True, samples=(0, 1), effort="low")
    told = "max_tokens 40, temperature 0.7, effort low, n 2, a seed, log-probabilities, "
    assert options_sent(replace(asked, constraint="none")) == f"{told}schema by the prompt only"
    assert options_sent(replace(asked, constraint="grammar")) == f"{told}grammar"


async def test_without_a_tokenizer_the_length_is_an_estimate() -> None:
    assert await TokenCounter(None).conversation([Message("user", "a" * 9)]) == (3, False)


async def test_a_count_that_fails_is_an_estimate_and_the_next_is_exact_again() -> None:
    counter = TokenCounter(Tokenizer(failures=1))
    assert (await counter.conversation(PROMPT)).exact is False
    assert (await counter.conversation(PROMPT)).exact is True


async def test_a_tokenizer_that_keeps_failing_is_asked_no_more() -> None:
    tokenizer = Tokenizer(failures=100)
    counter = TokenCounter(tokenizer)
    for _ in range(10):
        await counter.conversation(PROMPT)
    assert tokenizer.asked == 3
