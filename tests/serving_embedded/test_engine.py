import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig

from serving.embedded.causal_model import CausalModel, UnsupportedModel, check_supported
from serving.embedded.chat_format import ChatFormat
from serving.embedded.engine import Engine
from serving.embedded.request import (
    ContextLengthExceeded,
    GenerationStopped,
    InvalidSchema,
    Reply,
    Request,
    Ticket,
)
from serving.embedded.row import Row
from tests.serving_embedded.cases import IDS, LABELS, PROMPT, ask, label_map, needs_integers


def prompt(chat: ChatFormat, text: str) -> tuple[int, ...]:
    return tuple(chat.encode([{"role": "user", "content": text}]))


def test_every_sample_labels_exactly_the_ids(engine: Engine, chat: ChatFormat) -> None:
    request = Request(prompt=prompt(chat, PROMPT), samples=(0, 1, 2), temperature=0.7, schema=label_map())
    (reply,) = ask(engine, request)
    assert len(reply.samples) == 3
    for sample in reply.samples:
        labels = json.loads(sample.text)
        assert tuple(labels) == IDS
        assert set(labels.values()) <= set(LABELS)
        assert sample.finish_reason == "stop"
        assert sample.text == json.dumps(labels), "the layout is fixed"
    assert reply.input_tokens == len(request.prompt)
    assert reply.output_tokens == sum(len(sample.tokens) for sample in reply.samples)


def test_a_sample_alone_is_the_same_sample(exact_engine: Engine, chat: ChatFormat) -> None:
    request = Request(
        prompt=prompt(chat, "Tell a story."), samples=(0, 1, 2), temperature=1, max_new_tokens=4, seed=5
    )
    (three,) = ask(exact_engine, request)
    (alone,) = ask(exact_engine, replace(request, samples=(2,)))
    assert alone.samples[0].tokens == three.samples[2].tokens


@needs_integers
def test_guesses_save_passes_and_change_no_token(
    folder: Path, chat: ChatFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIGRAPH_CACHE", str(tmp_path))
    engine = Engine(folder, chat.tokenizer, precision="int8")
    passes = 0
    forward = CausalModel.forward

    def counted(*args: Any) -> Any:
        nonlocal passes
        passes += 1
        return forward(*args)

    monkeypatch.setattr(CausalModel, "forward", counted)
    text = "Repeat: one two three four five one two three four five one two three four five one two"
    request = Request(prompt=prompt(chat, text), max_new_tokens=30)
    (guessed,) = ask(engine, request)
    with_guesses, passes = passes, 0
    monkeypatch.setattr(Row, "guess", lambda row, count: None)
    (plain,) = ask(engine, request)
    assert guessed.samples == plain.samples
    assert with_guesses < passes


def check_greedy(folder: Path, engine: Engine, tokens: tuple[int, ...]) -> None:
    plain: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([tokens])
    output = plain.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8)
    expected = output[0, ids.shape[1] :].tolist()
    (reply,) = ask(engine, Request(prompt=tokens, max_new_tokens=8))
    found = reply.samples[0].tokens
    assert len(found) >= 6
    assert list(found[:8]) == expected[: min(8, len(found))]


def test_greedy_is_what_transformers_generates(folder: Path, exact_engine: Engine, chat: ChatFormat) -> None:
    check_greedy(folder, exact_engine, prompt(chat, "What is the capital of France?"))


def test_a_prompt_that_is_fed_in_pieces_is_read_as_transformers_reads_it(
    folder: Path, exact_engine: Engine, chat: ChatFormat
) -> None:
    before = "The library closes soon, and it is raining. " * 60
    check_greedy(folder, exact_engine, prompt(chat, f"{before}What is the capital of France?"))


def test_a_follow_up_turn_prefills_only_what_is_new(engine: Engine, chat: ChatFormat) -> None:
    turns = [{"role": "user", "content": f"Case one. {PROMPT}"}]
    first = Request(prompt=tuple(chat.encode(turns)), temperature=0.7, schema=label_map())
    (reply,) = ask(engine, first)
    turns += [
        {"role": "assistant", "content": reply.samples[0].text},
        {"role": "user", "content": "Check your labels."},
    ]
    (follow_up,) = ask(engine, Request(prompt=tuple(chat.encode(turns)), schema=label_map()))
    conversation = reply.input_tokens + reply.output_tokens
    assert follow_up.cached_tokens > 0.8 * conversation
    assert tuple(json.loads(follow_up.samples[0].text)) == IDS


def test_a_cached_prefix_changes_no_greedy_reply(exact_engine: Engine, chat: ChatFormat) -> None:
    system = {"role": "system", "content": "It is late, and the library closes soon. " * 10}
    tokens = chat.encode([system, {"role": "user", "content": "What is the capital of France?"}])
    request = Request(prompt=tuple(tokens), max_new_tokens=5)
    (cold,), (warm,) = ask(exact_engine, request), ask(exact_engine, request)
    assert cold.cached_tokens == 0
    assert warm.cached_tokens > 0.8 * len(tokens)
    assert warm.samples[0].tokens == cold.samples[0].tokens


def test_more_samples_than_rows_queue(engine: Engine, chat: ChatFormat) -> None:
    request = Request(
        prompt=prompt(chat, "Say something."), samples=tuple(range(20)), temperature=1, max_new_tokens=2
    )
    (reply,) = ask(engine, request)
    assert len(reply.samples) == 20


def test_rows_of_different_length_do_not_disturb_each_other(exact_engine: Engine, chat: ChatFormat) -> None:
    count = "Count in figures, from 1 to 20, with commas: 1, 2, 3, 4, 5, 6,"
    short = Request(prompt=prompt(chat, "What is the capital of France?"), max_new_tokens=5)
    long = Request(prompt=prompt(chat, count), max_new_tokens=24)
    hot = Request(prompt=prompt(chat, "Tell a story."), samples=(0, 1), temperature=0.7, max_new_tokens=12)
    alone = [ask(exact_engine, one)[0].samples[0].tokens for one in (short, long)]
    # The short one ends first, and the last row takes its place.
    together = ask(exact_engine, hot, short, long)
    assert [reply.samples[0].tokens for reply in together[1:]] == alone


def test_one_bad_request_leaves_the_others_alone(engine: Engine, chat: ChatFormat) -> None:
    fine = Request(prompt=prompt(chat, "Hello"), max_new_tokens=2)
    long = Request(prompt=(5,) * 8193)
    odd = Request(prompt=fine.prompt, schema={"type": "banana"})
    outcomes = engine.generate([long, fine, odd])
    assert isinstance(outcomes[0], ContextLengthExceeded)
    assert (outcomes[0].tokens, outcomes[0].limit) == (8193, 8192)
    assert "context length" in str(outcomes[0])
    assert isinstance(outcomes[1], Reply)
    assert isinstance(outcomes[2], InvalidSchema)


def test_a_cut_reply_says_so(engine: Engine, chat: ChatFormat) -> None:
    tokens = prompt(chat, PROMPT)
    free, bound = ask(
        engine,
        Request(prompt=tokens, max_new_tokens=3),
        Request(prompt=tokens, max_new_tokens=30, schema=label_map()),
    )
    assert [sample.finish_reason for sample in (*free.samples, *bound.samples)] == ["length", "length"]
    assert (free.output_tokens, bound.output_tokens) == (3, 30)


def test_stopping_leaves_an_engine_that_works(engine: Engine, chat: ChatFormat) -> None:
    request = Request(prompt=prompt(chat, "Count."), max_new_tokens=3)
    should_stop = threading.Event()
    should_stop.set()
    with pytest.raises(GenerationStopped):
        engine.generate([request], should_stop)
    ask(engine, request)


def test_a_request_that_joins_late_and_one_that_nobody_waits_for(engine: Engine, chat: ChatFormat) -> None:
    request = Request(prompt=prompt(chat, "Count."), max_new_tokens=4)
    settled: dict[str, object] = {}
    gone = threading.Event()
    first = Ticket(request, lambda outcome: settled.update(first=outcome))
    late = Ticket(request, lambda outcome: settled.update(late=outcome))
    dropped = Ticket(request, lambda outcome: settled.update(dropped=outcome), gone.is_set)
    batches = iter([[first, dropped], [], [late]])

    def feed() -> list[Ticket]:
        batch = next(batches, [])
        if late in batch:
            gone.set()
        return batch

    engine.run(feed, threading.Event())
    assert sorted(settled) == ["first", "late"]


def test_a_model_with_sliding_windows_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="vllm:"):
        check_supported(MistralConfig(sliding_window=64), Path("some"))
    check_supported(LlamaConfig(), Path("some"))
