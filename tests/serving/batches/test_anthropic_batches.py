"""Anthropic's batches, which keep no metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from anthropic import AsyncAnthropic

from serving.batches.providers.anthropic import own_id, remote_id
from serving.protocol.batch_provider import NoSuchBatch
from serving.protocol.errors import CallError
from tests.serving.batches.emulators.anthropic import AnthropicEmulator
from tests.serving.batches.harness import HOUR_S, Reached, key_of
from tests.serving.batches.test_batches import failure_of
from tests.serving.hosted_models import KEY


@pytest.fixture
def provider_name() -> str:
    return "anthropic"


@pytest.fixture
async def service() -> AsyncIterator[AnthropicEmulator]:
    one = AnthropicEmulator()
    async with one.serving():
        yield one


async def lost_submit(reached: Reached, nonce: str, rows: int = 2) -> dict[str, str]:
    """A batch was created, and its answer was lost."""
    metadata = await reached.metadata(nonce, rows)
    reached.emulator.faults.after = [0]
    await failure_of(reached.provider.submit(reached.rows(rows), metadata))
    return metadata


async def test_a_batch_that_runs_is_a_candidate_and_its_results_say_whose_it_is(reached: Reached) -> None:
    metadata = await lost_submit(reached, "mine")
    (candidate,) = await reached.found(metadata)
    assert (candidate.certain, candidate.final, candidate.metadata) == (False, False, {})
    reached.emulator.now += HOUR_S
    (ended,) = await reached.found(metadata)
    assert (ended.id, ended.certain, ended.metadata) == (candidate.id, True, metadata)


async def test_of_two_candidates_the_right_one_is_taken(reached: Reached) -> None:
    metadata = await reached.metadata("mine", 2)
    theirs = await reached.submit(2, nonce="theirs")
    reached.emulator.faults.after = [0]
    await failure_of(reached.provider.submit(reached.rows(2), metadata))
    candidates = await reached.found(metadata)
    assert [one.certain for one in candidates] == [False, False]
    reached.emulator.now += HOUR_S
    (mine,) = await reached.found(metadata)
    assert mine.certain and mine.id != theirs.id


async def test_a_batch_of_another_size_is_no_candidate(reached: Reached) -> None:
    metadata = await reached.metadata("mine", 2)
    await reached.submit(3, nonce="theirs")
    assert await reached.found(metadata) == []


async def test_older_batches_are_no_candidates_and_are_not_read(reached: Reached) -> None:
    await reached.submit(2, nonce="older")
    reached.emulator.now += HOUR_S
    metadata = await lost_submit(reached, "mine")
    reached.emulator.now += HOUR_S
    reached.emulator.paths.clear()
    assert len(await reached.found(metadata)) == 1
    assert sum(path.endswith("/results") for path in reached.emulator.paths) == 1


async def test_a_mark_whose_batch_was_deleted_still_ends_the_search(reached: Reached) -> None:
    for index in range(3):
        batch = await reached.submit(2, nonce=f"older{index}")
        reached.emulator.now += HOUR_S
    metadata = await lost_submit(reached, "mine")
    reached.emulator.now += HOUR_S
    await reached.provider.delete(batch)
    reached.emulator.paths.clear()
    assert len(await reached.found(metadata)) == 1
    assert sum(path.endswith("/results") for path in reached.emulator.paths) == 1


async def test_a_row_that_nobody_asked_for_hides_no_batch(reached: Reached) -> None:
    reached.emulator.faults.foreign = 1
    reached.emulator.faults.shuffled = True
    metadata = await lost_submit(reached, "mine")
    reached.emulator.now += HOUR_S
    assert len(await reached.found(metadata)) == 1


@pytest.mark.parametrize("custom_id", [key_of(1), "case-7", "a" * 47, "0" * 63 + "f"])
def test_identifiers_come_back_as_they_went(custom_id: str) -> None:
    whole = remote_id("N0nce0000000016x", custom_id)
    assert len(whole) <= 64
    assert own_id(whole) == custom_id


@pytest.mark.parametrize("custom_id", ["nobody-asked-0", "x", "", "a b", "n" * 200])
def test_an_identifier_that_is_none_of_ours_stays(custom_id: str) -> None:
    assert own_id(custom_id) == custom_id


@pytest.mark.parametrize(
    ("nonce", "custom_id"),
    [("n", "a b"), ("n", "a" * 63), ("n" * 17, "a"), ("n-1", "a"), ("", "a"), ("n", "é")],
)
def test_an_identifier_that_does_not_fit_is_refused(nonce: str, custom_id: str) -> None:
    with pytest.raises(CallError, match="none that Anthropic takes"):
        remote_id(nonce, custom_id)


async def test_the_list_of_requests_is_the_one_that_the_client_would_send(
    reached: Reached, service: AnthropicEmulator
) -> None:
    rows = reached.rows(3)
    await reached.provider.submit(rows, {"nonce": "n1"})
    client = AsyncAnthropic(api_key=KEY, base_url=service.url, max_retries=0)
    await client.messages.batches.create(
        requests=[{"custom_id": remote_id("n1", row.custom_id), "params": row.body} for row in rows]  # type: ignore[typeddict-item]
    )
    ours, theirs = service.batches
    assert ours.rows == theirs.rows
    await client.close()


async def test_results_come_from_the_service_whatever_address_it_names(
    reached: Reached, service: AnthropicEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = service._shown
    elsewhere = "http://127.0.0.1:9/results"
    monkeypatch.setattr(service, "_shown", lambda batch: shown(batch) | {"results_url": elsewhere})
    assert len(await reached.results(await reached.finished())) == 4


async def test_a_batch_that_runs_is_not_deleted(reached: Reached) -> None:
    batch = await reached.submit()
    failure = await failure_of(reached.provider.delete(batch))
    assert "processing" in str(failure)
    reached.emulator.now += HOUR_S
    await reached.provider.delete(batch)
    with pytest.raises(NoSuchBatch):
        await reached.provider.look(batch.id)


@pytest.mark.parametrize(
    "result",
    [
        None,
        "no",
        {},
        {"type": "new"},
        {"type": "succeeded"},
        {"type": "succeeded", "message": None},
        {"type": "succeeded", "message": {"content": None}},
        {"type": "errored", "error": None},
        {"type": "errored", "error": {"error": {"type": 7}}},
    ],
)
async def test_a_row_that_is_no_result_is_a_failure_of_this_row(
    reached: Reached, monkeypatch: pytest.MonkeyPatch, result: object
) -> None:
    monkeypatch.setattr(
        AnthropicEmulator,
        "_line",
        lambda self, batch, index: {"custom_id": batch.rows[index].custom_id, "result": result},
    )
    results = await reached.results(await reached.finished(2))
    assert [one.custom_id for one in results] == [key_of(0), key_of(1)]
    assert all(one.failure is not None and not one.answers for one in results)
