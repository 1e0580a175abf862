"""Requests for choices: the probability of one token, for many prompts that begin alike."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from serving.backends import Backend
from serving.embedded.chat_format import ChatFormat
from serving.embedded.engine import Engine
from serving.embedded.request import InvalidChoices, Outcome, Reply, Request, Ticket
from serving.protocol.messages import Message
from tests.serving.asks import as_sent
from tests.serving_embedded.cases import PROMPT, ask, label_map

NOTE = "\n".join(f"{number}: Reading {number * 7} of the pump was taken at noon." for number in range(1, 11))
YES_NO = ("Yes", "No")


def of_sentence(chat: ChatFormat, number: int, note: str = NOTE) -> Request:
    turns = [
        {"role": "system", "content": "Reply with Yes or No only."},
        {"role": "user", "content": note},
        {"role": "assistant", "content": "Which sentence?"},
        {"role": "user", "content": f"Is sentence {number} needed?{' Really?' * (number % 3)}"},
    ]
    return Request(prompt=tuple(chat.encode(turns)), choices=YES_NO, max_new_tokens=1)


def shares(reply: Reply) -> dict[str, float]:
    return dict(reply.samples[0].shares)


@pytest.fixture
def passes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []
    weigh = engine._model.weigh

    def watched(row: int, length: int, chunks: Sequence[Sequence[int]], tokens: Sequence[int]) -> Any:
        seen.append(len(chunks))
        return weigh(row, length, chunks, tokens)

    monkeypatch.setattr(engine._model, "weigh", watched)
    return seen


def test_probabilities_are_those_of_the_whole_prompt_read_by_itself(
    folder: Path, exact_engine: Engine, chat: ChatFormat
) -> None:
    requests = [of_sentence(chat, number) for number in (1, 2, 9)]
    plain: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    replies = ask(exact_engine, *requests)
    for request, reply in zip(requests, replies, strict=True):
        with torch.inference_mode():
            logits = plain(torch.tensor([request.prompt])).logits[0, -1]
        likely = torch.log_softmax(logits, -1)
        for word in YES_NO:
            token = chat.tokenizer.encode(word, add_special_tokens=False)[0]
            assert shares(reply)[word] == pytest.approx(float(likely[token]), abs=1e-3)
        assert reply.samples[0].text == max(YES_NO, key=lambda word: shares(reply)[word])


def test_a_sentence_is_weighed_alike_alone_and_among_others(exact_engine: Engine, chat: ChatFormat) -> None:
    requests = [of_sentence(chat, number) for number in range(1, 5)]
    together = ask(exact_engine, *requests)
    for request, reply in zip(requests, together, strict=True):
        (alone,) = ask(exact_engine, request)
        assert shares(alone) == pytest.approx(shares(reply), abs=1e-3)


def test_all_sentences_of_a_note_share_one_prefill_and_a_few_passes(
    engine: Engine, chat: ChatFormat, passes: list[int]
) -> None:
    note = "An unrelated note. " * 10
    requests = [of_sentence(chat, number, note) for number in range(1, 41)]
    first, *others = ask(engine, *requests)
    assert sum(passes) == 40
    assert len(passes) <= 4
    own = [reply.input_tokens - reply.cached_tokens for reply in others]
    assert max(own) < 40
    assert first.input_tokens - first.cached_tokens > 60


def test_notes_that_share_only_their_instructions_are_weighed_apart(
    engine: Engine, chat: ChatFormat, passes: list[int]
) -> None:
    words = "The dose was raised and the pain went away after some hours. " * 10
    notes = [f"Note {name}. {words}" for name in ("one", "two")]
    ask(engine, *(of_sentence(chat, number, note) for number in (1, 2, 3) for note in notes))
    assert passes == [3, 3]


def test_choices_and_votes_are_worked_on_side_by_side(exact_engine: Engine, chat: ChatFormat) -> None:
    turns = [{"role": "user", "content": PROMPT}]
    vote = Request(prompt=tuple(chat.encode(turns)), samples=(0, 1), schema=label_map())
    (alone,) = ask(exact_engine, vote)
    outcomes: dict[int, Outcome] = {}
    later = [Ticket(of_sentence(chat, number), partial(outcomes.__setitem__, number)) for number in (1, 2)]
    feeds = iter([[Ticket(vote, partial(outcomes.__setitem__, 0))], [], [], later])
    exact_engine.run(lambda: next(feeds, []), threading.Event())
    mixed = outcomes[0]
    assert isinstance(mixed, Reply)
    assert [sample.text for sample in mixed.samples] == [sample.text for sample in alone.samples]
    assert all(isinstance(outcomes[number], Reply) for number in (1, 2))


def test_choices_that_begin_alike_are_refused(engine: Engine, chat: ChatFormat) -> None:
    request = replace(of_sentence(chat, 1), choices=("Yes", "Yes"))
    (outcome,) = engine.generate([request])
    assert isinstance(outcome, InvalidChoices)


async def test_the_backend_gives_the_log_probabilities_of_choices(backend: Backend) -> None:
    call = as_sent(choices=YES_NO, logprobs=True, max_tokens=1)
    complete = backend.servers[0].complete
    asked = [(Message("user", NOTE), Message("user", f"Is {number} odd?")) for number in (1, 2, 3)]
    answers = await asyncio.gather(*(complete(replace(call, messages=messages)) for messages in asked))
    for (answer,) in answers:
        (token,) = answer.logprobs
        assert answer.text == token.token
        assert {word for word, _ in token.top} == set(YES_NO)
        assert all(logprob < 0 for _, logprob in token.top)
    assert backend.weighs_choices
