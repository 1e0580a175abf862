"""OpenAI's batches, and those of servers with its protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from serving.batches.providers import connect
from serving.batches.providers.openai import INPUT_DAYS, OUTPUT_DAYS
from serving.protocol.errors import CallError, ModelError
from serving.protocol.model_name import ModelName
from tests.serving.batches.emulators.bookkeeping import DAY_S
from tests.serving.batches.emulators.openai import OpenAIEmulator
from tests.serving.batches.harness import HOUR_S, Reached, key_of, prompt
from tests.serving.batches.test_batches import failure_of
from tests.serving.hosted_models import call


@pytest.fixture
def provider_name() -> str:
    return "openai"


@pytest.fixture
async def service() -> AsyncIterator[OpenAIEmulator]:
    one = OpenAIEmulator()
    async with one.serving():
        yield one


def live_files(service: OpenAIEmulator) -> list[str]:
    return [file.name for file in service.files.values() if not file.deleted]


async def test_a_batch_that_fails_its_validation_says_lines_and_reasons(reached: Reached) -> None:
    rows = reached.rows(3)
    batch = await reached.provider.submit([rows[0], rows[1], rows[0]], await reached.metadata())
    reached.emulator.now += HOUR_S
    failed = await reached.provider.look(batch.id)
    assert (failed.state, failed.final, failed.error_class) == ("failed", True, "internal")
    assert failed.reason.startswith("line 3: The custom_id")
    assert await reached.results(failed) == []
    assert reached.emulator.ledger.of("accepted") == []


async def test_a_full_queue_is_a_rate_limit_of_the_batch(reached: Reached) -> None:
    reached.emulator.faults.fail_batch = "token_limit_exceeded"
    batch = await reached.submit()
    reached.emulator.now += HOUR_S
    failed = await reached.provider.look(batch.id)
    assert (failed.state, failed.error_class) == ("failed", "rate_limit")
    assert "Enqueued token limit" in failed.reason


async def test_a_reason_of_a_thousand_lines_is_short(reached: Reached) -> None:
    rows = reached.rows(1) * 90
    batch = await reached.provider.submit(rows, await reached.metadata())
    reached.emulator.now += HOUR_S
    failed = await reached.provider.look(batch.id)
    assert failed.reason.count("line ") == 3
    assert failed.reason.endswith("; and 86 more")


@pytest.mark.parametrize(("status", "left"), [(400, 0), (429, 1), (500, 1)])
async def test_an_upload_whose_batch_is_refused_is_deleted(
    reached: Reached, service: OpenAIEmulator, status: int, left: int
) -> None:
    # After any other answer the batch may exist, and needs its file.
    service.faults.before = [status]
    await failure_of(reached.submit())
    assert len(live_files(service)) == left


async def test_files_expire_by_themselves(reached: Reached, service: OpenAIEmulator) -> None:
    await reached.finished()
    keeps = {file.name[:3]: file.expires - file.created for file in service.files.values()}
    assert keeps == {"evi": INPUT_DAYS * DAY_S, "bat": OUTPUT_DAYS * DAY_S}
    assert f"{INPUT_DAYS} days" in reached.provider.retention
    assert f"for {OUTPUT_DAYS}" in reached.provider.retention


async def test_all_files_are_deleted_and_the_batch_stays(reached: Reached, service: OpenAIEmulator) -> None:
    service.faults.rows = {0: "invalid"}
    batch = await reached.finished()
    assert len(batch.files) == 3
    await reached.provider.delete(batch)
    assert live_files(service) == []
    assert (await reached.provider.look(batch.id)).state == "ended"


async def test_logprobs_and_samples_come_back(reached: Reached) -> None:
    parameters = call("none", samples=2, logprobs=True)
    row = reached.provider.row(key_of(0), replace(parameters, messages=prompt(0)))
    batch = await reached.provider.submit([row], await reached.metadata())
    reached.emulator.now += HOUR_S
    (one,) = await reached.results(await reached.provider.look(batch.id), 2)
    assert all(answer.logprobs and len(answer.logprobs[0].top) == 5 for answer in one.answers)
    assert one.answers[0].cached_tokens > 0


@pytest.mark.parametrize(
    "line",
    [
        {"response": None, "error": None},
        {"response": {"status_code": 200, "body": None}, "error": None},
        {"response": {"status_code": 200, "body": {"choices": None}}, "error": None},
        {"response": {"status_code": 200, "body": ["x"]}, "error": None},
        {"response": {"status_code": 0, "body": {}}, "error": None},
        {"response": {"status_code": "no", "body": "no"}, "error": None},
        {"response": "no", "error": None},
        {"response": None, "error": {"code": 7, "message": None}},
        {"response": None, "error": "gone"},
    ],
)
async def test_a_row_that_is_no_result_is_a_failure_of_this_row(
    reached: Reached, monkeypatch: pytest.MonkeyPatch, line: dict[str, object]
) -> None:
    monkeypatch.setattr(
        OpenAIEmulator,
        "_result",
        lambda self, batch, index: {"custom_id": batch.rows[index].custom_id} | line,
    )
    results = await reached.results(await reached.finished(2))
    assert [one.custom_id for one in results] == [key_of(0), key_of(1)]
    assert all(one.failure is not None and not one.answers for one in results)


async def test_a_servers_batches_go_by_openais_protocol(service: OpenAIEmulator) -> None:
    # It looks at the server and waits, and this loop is the server's.
    model = await asyncio.to_thread(connect, ModelName("openai", "tiny", f"{service.url}/v1"))
    provider = model.provider
    assert provider.endpoint == f"{service.url}/v1"
    row = provider.row(key_of(0), replace(call("json_schema", samples=2), messages=prompt(0)))
    batch = await provider.submit([row], {"nonce": "n1"})
    service.now += HOUR_S
    (one,) = [one async for one in provider.results(batch, lambda _: 2)]
    assert (one.custom_id, len(one.answers)) == (key_of(0), 2)
    # A server may not know these fields.
    (file, _) = service.files.values()
    assert file.expires - file.created == 30 * DAY_S
    await provider.delete(await provider.look(batch.id))
    assert live_files(service) == []
    await provider.aclose()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (ModelName("deepseek", "deepseek-chat"), "has no batches"),
        (ModelName("embedded", "smollm2-135m"), "has no batches"),
        (ModelName("vllm", "tiny"), "has no batches"),
        (ModelName("openai", "tiny", "http://127.0.0.1:1/v1,http://127.0.0.1:2/v1"), "one address"),
        (ModelName("openai", "tiny", "http://127.0.0.1:9/v1"), "cannot reach"),
    ],
)
def test_a_model_without_batches_is_refused(name: ModelName, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        connect(name)


async def test_a_row_that_no_line_can_hold_ends_the_reading(
    reached: Reached, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.batches.providers.json_lines.MAX_REPLY_BYTES", 200)
    with pytest.raises(CallError, match="larger than"):
        await reached.results(await reached.finished())


async def test_a_file_without_end_is_not_read_to_its_end(
    reached: Reached, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.batches.providers.json_lines.MAX_LINES", 2)
    with pytest.raises(CallError, match="more than 2 lines"):
        await reached.results(await reached.finished())
