import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from serving.backends import Backend, connect
from serving.backends.backend import exchange
from serving.embedded.chat_format import ChatFormat
from serving.embedded.request import Reply, Request, Sample
from serving.embedded.worker import EngineWorker, worker_for
from serving.protocol.errors import CallError, ModelError
from serving.protocol.messages import Answer, Message
from serving.protocol.model_name import ModelName
from tests.serving.asks import as_sent
from tests.serving_embedded.cases import IDS, PROMPT, label_map
from tests.weights.tiny_gguf import POSITIONS, write_tiny_gguf

FRANCE = (Message("user", "What is the capital of France?"),)
STORY = (Message("user", "Tell a story."),)


async def answers(
    backend: Backend,
    messages: Sequence[Message],
    *,
    samples: tuple[int, ...] = (0,),
    temperature: float = 0.0,
    max_tokens: int = 24,
    schema: dict[str, Any] | None = None,
    seed: int = 0,
) -> list[Answer]:
    asked = as_sent(
        schema,
        messages=tuple(messages),
        samples=samples,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
        constraint="grammar",
    )
    return await backend.servers[0].complete(asked)


def test_weights_that_cannot_be_loaded_are_loaded_once_for_all_waiting_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued, loads = Event(), []

    def load(*_: Any, **__: Any) -> None:
        assert queued.wait(60)
        loads.append(1)
        raise ModelError("damaged")

    monkeypatch.setattr("serving.embedded.engine.Engine", load)
    monkeypatch.setattr("serving.embedded.worker.chat_format", lambda folder: SimpleNamespace(tokenizer=None))
    worker = EngineWorker(tmp_path, "bf16")
    futures = [worker.submit(lambda chat: pytest.fail("prepared")) for _ in range(3)]
    queued.set()
    assert [str(future.exception(60)) for future in futures] == ["damaged"] * 3
    worker.close()
    assert loads == [1]


async def test_a_gguf_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIGRAPH_CACHE", str(tmp_path / "cache"))
    mine = connect(ModelName("embedded", str(write_tiny_gguf(tmp_path / "mine.gguf"))))
    found = await answers(mine, (Message("user", "Hi."),), max_tokens=5, schema={"enum": ["a", "b"]})
    assert found[0].text in ('"a"', '"b"')
    assert (mine.context_length, found[0].finish_reason) == (POSITIONS, "stop")


def test_a_folder_with_sliding_windows_is_refused_before_its_weights_are_read(tmp_path: Path) -> None:
    config = {"model_type": "mistral", "sliding_window": 64, "max_position_embeddings": 128}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match=r"because its attention sees 64 of 128 tokens.*vllm:"):
        connect(ModelName("embedded", str(tmp_path)))


async def test_one_request_gives_several_replies_in_the_schema(backend: Backend) -> None:
    found = await answers(
        backend,
        (Message("user", PROMPT),),
        samples=(0, 1, 2),
        schema=label_map(),
        temperature=0.7,
        max_tokens=200,
        seed=3,
    )
    assert [tuple(json.loads(answer.text)) for answer in found] == [IDS, IDS, IDS]
    assert [answer.finish_reason for answer in found] == ["stop"] * 3


async def test_thinking_is_taken_off_a_reply(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Sample(text="<think>so so</think>Yes.", tokens=(1,) * 11, finish_reason="stop")
    done: Future[Reply] = Future()
    done.set_result(Reply(samples=(said,), input_tokens=5, output_tokens=11, cached_tokens=0))
    worker = SimpleNamespace(submit=lambda prepare: done)
    monkeypatch.setattr("serving.embedded.backend.worker_for", lambda folder, precision: worker)
    (answer,) = await answers(backend, FRANCE)
    assert (answer.text, answer.thinking) == ("Yes.", "so so")
    assert (answer.output_tokens, answer.thinking_tokens) == (11, 7)


async def test_concurrent_requests_answer_as_each_alone(whole_backend: Backend) -> None:
    other = (Message("system", "You answer with one word."), Message("user", "What colour is the sky?"))
    alone = [await answers(whole_backend, messages, max_tokens=5) for messages in (FRANCE, other)]
    together = await asyncio.gather(
        *(answers(whole_backend, messages, max_tokens=5) for messages in (FRANCE, other))
    )
    assert [found[0].text for found in together] == [found[0].text for found in alone]
    assert alone[0][0].text == "The capital of France is"


async def test_a_follow_up_reads_the_cache(backend: Backend) -> None:
    opening = (Message("system", "You label sentences."), Message("user", f"{PROMPT}\nThank you."))
    (first,) = await answers(backend, opening, schema=label_map(), max_tokens=200)
    follow_up = (*opening, Message("assistant", first.text), Message("user", "Check your labels."))
    (second,) = await answers(backend, follow_up, schema=label_map(), max_tokens=200)
    assert second.cached_tokens > 0.8 * (first.input_tokens + first.output_tokens)


async def test_too_long_a_prompt_is_refused_with_its_length(backend: Backend) -> None:
    assert backend.context_length == 8192
    asked = as_sent(messages=(Message("user", "word " * 9000),))
    with pytest.raises(CallError, match="8192") as caught:
        await exchange(backend.servers[0], asked, limit_s=60.0, retries=0)
    assert caught.value.error_class == "context_length"


async def test_a_failure_reaches_its_caller_and_the_worker_goes_on(backend: Backend, folder: Path) -> None:
    def fail(chat: ChatFormat) -> Request:
        raise ZeroDivisionError("on purpose")

    failing = asyncio.wrap_future(worker_for(folder).submit(fail))
    found, failure = await asyncio.gather(
        answers(backend, FRANCE, max_tokens=3), failing, return_exceptions=True
    )
    assert isinstance(failure, ZeroDivisionError)
    assert isinstance(found, list)


async def test_a_failure_of_the_engine_reaches_everyone_who_waits(
    whole_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("on purpose")

    await answers(whole_backend, FRANCE, max_tokens=1)
    with monkeypatch.context() as patch:
        patch.setattr("serving.embedded.causal_model.CausalModel.forward", broken)
        calls = (answers(whole_backend, FRANCE), answers(whole_backend, STORY))
        failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(failure) for failure in failures] == [MemoryError, MemoryError]
    assert (await answers(whole_backend, FRANCE, max_tokens=3))[0].text == "The capital of"


async def test_a_cancelled_request_is_dropped(backend: Backend) -> None:
    long = asyncio.create_task(answers(backend, STORY, max_tokens=4000))
    await asyncio.sleep(0.3)
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    async with asyncio.timeout(120):
        await answers(backend, FRANCE, max_tokens=3)
