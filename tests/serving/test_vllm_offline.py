"""vLLM's engine in this process, with real weights: `make test-vllm-offline`."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from serving.ask import Reply
from serving.backends import Backend, connect
from serving.backends.backend import CallParameters
from serving.client import ModelClient
from serving.errors import CallError, ModelError
from serving.journal import Journal
from serving.messages import Answer
from serving.model_name import parse_model_name
from serving.probe import probe
from tests.serving.test_vllm import IDS, PROMPT, SCHEMA, label_ask, parse
from weights.pull import resolve

# One engine serves all tests: it takes half a minute to start.
pytestmark = [
    pytest.mark.vllm_offline,
    pytest.mark.asyncio(loop_scope="module"),
    # Of vLLM and of what it imports; nothing of ours is silenced, as these tests run apart.
    pytest.mark.filterwarnings("default"),
]

CALL = CallParameters("label", "7", (0,), 0.7, 300, SCHEMA, "labels", constraint="grammar")
FREE = replace(CALL, schema=None, max_tokens=40)


def engine_processes() -> list[multiprocessing.process.BaseProcess]:
    return [child for child in multiprocessing.active_children() if child.name.startswith("EngineCore")]


def wait_for_one_more_than(count: int) -> None:
    while len(engine_processes()) <= count:
        time.sleep(0.1)


async def ask(backend: Backend, call: CallParameters = CALL) -> list[Answer]:
    return await backend.servers[0].complete(PROMPT, call)


async def closed(backend: Backend) -> None:
    assert backend.servers[0].close is not None
    await backend.servers[0].close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend() -> AsyncIterator[Backend]:
    backend = connect(parse_model_name("vllm-offline:smollm2-135m"))
    yield backend
    await closed(backend)


async def test_nothing_is_loaded_before_it_is_needed() -> None:
    idle = connect(parse_model_name("vllm-offline:smollm2-135m"))
    assert idle.context_length == 8192
    assert idle.count_tokens is not None
    assert await idle.count_tokens(PROMPT) > 100
    assert engine_processes() == []
    await closed(idle)


async def test_one_request_brings_three_label_maps(backend: Backend, journal: Journal) -> None:
    outcomes = await ModelClient({"label": backend}, journal).ask(label_ask((0, 1, 2)))
    replies = [outcome for outcome in outcomes if isinstance(outcome, Reply)]
    assert len(replies) == 3, outcomes
    assert all(tuple(reply.value) == IDS for reply in replies)
    assert [len(reply.calls) for reply in replies] == [1, 1, 1]
    assert [reply.calls[0].input_tokens > 0 for reply in replies] == [True, False, False]


async def test_the_count_of_tokens_is_that_of_the_usage(backend: Backend) -> None:
    assert backend.count_tokens is not None
    (answer,) = await ask(backend)
    assert answer.input_tokens == await backend.count_tokens(PROMPT)


async def test_a_repeated_prompt_is_found_in_the_cache(backend: Backend) -> None:
    await ask(backend)
    (answer,) = await ask(backend)
    assert answer.cached_tokens > 0


async def test_a_cut_reply_says_so(backend: Backend) -> None:
    (answer,) = await ask(backend, replace(CALL, max_tokens=5))
    assert (answer.finish_reason, answer.output_tokens) == ("length", 5)


async def test_a_prompt_that_does_not_fit_is_refused(backend: Backend) -> None:
    with pytest.raises(CallError) as caught:
        await ask(backend, replace(CALL, max_tokens=8192))
    assert caught.value.error_class == "context_length"


@pytest.mark.parametrize("call", [CALL, FREE], ids=["grammar", "free"])
async def test_the_tokens_of_the_logprobs_are_the_text(backend: Backend, call: CallParameters) -> None:
    (answer,) = await ask(backend, replace(call, logprobs=True))
    assert "".join(token.token for token in answer.logprobs) == answer.text
    assert all(len(token.top) == 5 for token in answer.logprobs)


async def test_a_character_of_several_tokens_stays_whole(backend: Backend) -> None:
    words = {"type": "object", "properties": {"word": {"type": "string", "enum": ["Fieber 🤒 über 39°"]}}}
    (answer,) = await ask(backend, replace(CALL, schema=words, logprobs=True))
    assert (
        "".join(token.token for token in answer.logprobs) == answer.text == '{"word": "Fieber 🤒 über 39°"}'
    )


async def test_a_json_schema_binds_too(backend: Backend) -> None:
    (answer,) = await ask(backend, replace(CALL, constraint="json_schema", max_tokens=600))
    assert tuple(parse(answer.text)) == IDS


async def test_the_probe_finds_what_is_claimed(backend: Backend) -> None:
    able, findings = await probe(backend)
    assert able.constraints == backend.constraints
    assert (findings.many_samples, findings.logprobs, able.takes_seed) == (True, True, False)


async def test_requests_of_one_moment_are_batched(backend: Backend) -> None:
    loop = asyncio.get_running_loop()
    call = replace(FREE, temperature=0.0, max_tokens=100)

    async def ended() -> tuple[float, int]:
        (answer,) = await ask(backend, call)
        return loop.time(), answer.output_tokens

    begin = loop.time()
    first, second = await asyncio.gather(ended(), ended())
    assert first[1] == second[1]
    # One after the other, the second would take twice as long as the first.
    assert abs(first[0] - second[0]) < (max(first[0], second[0]) - begin) / 4


async def test_a_cancelled_request_leaves_the_others(backend: Backend) -> None:
    doomed = asyncio.create_task(ask(backend, replace(FREE, max_tokens=2000)))
    other = asyncio.create_task(ask(backend))
    await asyncio.sleep(0.5)
    doomed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doomed
    (answer,) = await other
    assert tuple(parse(answer.text)) == IDS


async def test_a_refused_request_leaves_the_engine(backend: Backend) -> None:
    with pytest.raises(Exception, match="temperature"):
        await ask(backend, replace(CALL, temperature=-1.0))
    assert len(await ask(backend)) == 1


async def test_ctrl_c_in_the_terminal_does_not_reach_the_engine(backend: Backend) -> None:
    await ask(backend)
    (process,) = engine_processes()
    assert process.pid is not None
    pending = asyncio.create_task(ask(backend))
    await asyncio.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    (answer,) = await pending
    assert answer.finish_reason == "stop"
    assert len(await ask(backend)) == 1


async def test_a_dead_engine_is_noticed_and_said() -> None:
    backend = connect(parse_model_name("vllm-offline:smollm2-135m"))
    before = {process.pid for process in engine_processes()}
    await ask(backend)
    (process,) = [process for process in engine_processes() if process.pid not in before]
    pending = asyncio.create_task(ask(backend, replace(FREE, max_tokens=2000)))
    await asyncio.sleep(0.5)
    process.kill()
    for request in (pending, ask(backend)):
        with pytest.raises(CallError, match="engine has died") as caught:
            await request
        assert (caught.value.error_class, caught.value.retryable) == ("connection", False)
    await closed(backend)


async def test_closing_ends_what_still_loads_and_nothing_else(backend: Backend) -> None:
    await ask(backend)
    before = len(engine_processes())
    loading = connect(parse_model_name("vllm-offline:smollm2-135m"))
    request = asyncio.create_task(ask(loading))
    await asyncio.to_thread(wait_for_one_more_than, before)
    await closed(loading)
    with pytest.raises(CallError, match="does not start"):
        await request
    with pytest.raises(CallError, match="closed"):
        await ask(loading)
    assert len(engine_processes()) == before
    assert len(await ask(backend)) == 1


async def test_closing_leaves_no_process(backend: Backend) -> None:
    await ask(backend)
    (process,) = engine_processes()
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert workers
    await closed(backend)
    assert engine_processes() == []
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


async def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    for file in resolve("smollm2-135m").iterdir():
        if file.name != "chat_template.jinja":
            (tmp_path / file.name).symlink_to(file)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="has no chat template of use") as caught:
        connect(parse_model_name(f"vllm-offline:{tmp_path}"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nobody/nothing", "{empty}"])
async def test_a_model_that_vllm_cannot_use_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="vLLM cannot use") as caught:
        connect(parse_model_name(f"vllm-offline:{name.format(empty=tmp_path)}"))
    assert "\n" not in str(caught.value)
