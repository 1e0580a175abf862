"""What holds for the batches of every provider."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

import pytest

from serving.backends import connect as connect_online
from serving.backends.backend import exchange
from serving.batches.providers import connect_batched
from serving.protocol.batch_provider import BatchRow, NoSuchBatch, RemoteBatch
from serving.protocol.errors import CallError, classify
from serving.protocol.model_name import ModelName
from tests.serving.batches.conftest import Reach
from tests.serving.batches.emulators.bookkeeping import WRONG_KEY, RowFault
from tests.serving.batches.harness import HOUR_S, OTHER_KEY, Reached, failures, key_of, prompt
from tests.serving.hosted_models import MODELS, call


async def failure_of(awaitable: Awaitable[object]) -> CallError:
    with pytest.raises(Exception) as caught:
        await awaitable
    return classify(caught.value)


async def test_a_batch_goes_from_its_submit_to_its_results(reached: Reached) -> None:
    batch = await reached.submit(3)
    assert (batch.state in ("preparing", "running"), batch.final) == (True, False)
    reached.emulator.now += 60
    running = await reached.provider.look(batch.id)
    assert (running.id, running.state) == (batch.id, "running")
    reached.emulator.now += HOUR_S
    ended = await reached.provider.look(batch.id)
    assert (ended.state, ended.final) == ("ended", True)
    # Google does not say.
    counts = (None, None) if reached.name == "google_genai" else (3, 3)
    assert (ended.requests, ended.done) == counts
    results = await reached.results(ended)
    assert [one.custom_id for one in results] == [key_of(index) for index in range(3)]
    assert [(one.failure, len(one.answers)) for one in results] == [(None, 1)] * 3
    assert len(reached.emulator.ledger.of("billed")) == 3


async def test_a_row_gets_the_answer_that_the_same_request_gets_online(reached: Reached) -> None:
    samples = min(2, reached.model.max_samples)
    calls = [
        call(constraint, samples=samples, logprobs=reached.model.logprobs)
        for constraint in reached.model.constraints
    ]
    rows = [reached.provider.row(key_of(n), replace(one, messages=prompt(n))) for n, one in enumerate(calls)]
    batch = await reached.provider.submit(rows, await reached.metadata())
    reached.emulator.now += HOUR_S
    batched = await reached.results(await reached.provider.look(batch.id), samples)
    backend = connect_online(ModelName(reached.name, MODELS[reached.name]))
    (server,) = backend.servers
    for index, (row, one) in enumerate(zip(rows, calls, strict=True)):
        assert await server.complete(replace(one, messages=prompt(index))) == list(batched[index].answers)
        assert reached.emulator.online[index] == row.body
    assert server.endpoint == reached.provider.endpoint
    assert server.close is not None
    await server.close()


async def test_the_models_abilities_are_those_that_it_has_online(reached: Reached) -> None:
    backend = connect_online(ModelName(reached.name, MODELS[reached.name]))
    assert reached.model.constraints == backend.constraints
    assert (reached.model.many_samples, reached.model.logprobs) == (backend.many_samples, backend.logprobs)
    (server,) = backend.servers
    assert server.close is not None
    await server.close()


async def test_more_samples_than_a_request_can_bring_are_refused(reached: Reached) -> None:
    samples = reached.model.max_samples + 1
    with pytest.raises(CallError, match="samples"):
        reached.provider.row("a", replace(call(samples=samples), messages=prompt(0)))


@pytest.mark.parametrize("status", [429, 500, 0])
async def test_a_submit_that_failed_without_a_batch_is_not_found(reached: Reached, status: int) -> None:
    reached.emulator.faults.before = [status]
    metadata = await reached.metadata()
    failure = await failure_of(reached.provider.submit(reached.rows(2), metadata))
    assert failure.error_class == ("rate_limit" if status == 429 else "connection")
    assert failure.retry_after == (7.0 if status == 429 else None)
    assert await reached.found(metadata) == []
    await reached.provider.submit(reached.rows(2), metadata)
    assert len(await reached.found(metadata)) == 1


@pytest.mark.parametrize("status", [429, 500, 0])
async def test_a_submit_that_failed_after_its_batch_was_made_is_found(reached: Reached, status: int) -> None:
    reached.emulator.faults.after = [status]
    metadata = await reached.metadata()
    await failure_of(reached.provider.submit(reached.rows(2), metadata))
    (found,) = await reached.found(metadata)
    reached.emulator.now += HOUR_S
    (found,) = await reached.found(metadata)
    assert found.certain
    assert len(await reached.results(found)) == 2
    assert len(reached.emulator.ledger.of("billed")) == 2


async def test_batches_are_found_page_by_page(reached: Reached) -> None:
    metadata = await reached.metadata()
    oldest = await reached.provider.submit(reached.rows(2), metadata)
    for index in range(4):
        await reached.submit(3, nonce=f"m{index}")
    reached.emulator.now += HOUR_S
    reached.emulator.faults.page = 1
    assert [one.id for one in await reached.found(metadata)] == [oldest.id]


async def test_a_list_that_repeats_itself_is_not_read_for_ever(reached: Reached) -> None:
    metadata = await reached.metadata()
    for index in range(3):
        await reached.submit(2, nonce=f"m{index}")
    reached.emulator.faults.page = 1
    reached.emulator.faults.same_page = True
    assert "again" in str(await failure_of(reached.found({**metadata, "nonce": "none"})))


@pytest.mark.parametrize(
    ("fault", "error_class", "retryable"),
    [
        ("invalid", "internal", False),
        ("overloaded", "connection", True),
        ("too_long", "context_length", False),
    ],
)
async def test_a_row_fails_alone(
    reached: Reached, fault: RowFault, error_class: str, retryable: bool
) -> None:
    reached.emulator.faults.rows = {1: fault}
    results = await reached.results(await reached.finished(4))
    (index, failure), *others = failures(results).items()
    assert (index, others) == (1, [])
    if reached.name == "anthropic" and fault == "overloaded":
        error_class = "rate_limit"
    assert (failure.error_class, failure.retryable) == (error_class, retryable)
    assert reached.provider.endpoint in str(failure)
    assert len(results) == 4
    assert len(reached.emulator.ledger.of("billed")) == 3


async def test_a_refusal_is_an_answer_that_is_paid_for(reached: Reached) -> None:
    reached.emulator.faults.rows = {0: "refused", 1: "blocked"}
    samples = min(2, reached.model.max_samples)
    results = await reached.results(await reached.finished(3, samples=samples), samples)
    reasons = [{answer.finish_reason for answer in one.answers} for one in results]
    assert [len(one.answers) for one in results] == [samples] * 3
    assert reasons[0] <= {"refusal", "content_filter"}
    assert reasons[1] <= {"refusal", "content_filter"}
    assert not reasons[2] & {"refusal", "content_filter"}


async def test_missing_and_doubled_rows_are_given_as_they_are(reached: Reached) -> None:
    reached.emulator.faults.missing = [0]
    reached.emulator.faults.doubled = [2]
    results = await reached.results(await reached.finished())
    assert sorted(one.custom_id for one in results) == sorted(key_of(index) for index in (1, 2, 2, 3))
    assert len({one.answers for one in results if one.custom_id == key_of(2)}) == 1


async def test_rows_that_nobody_asked_for_keep_their_names(reached: Reached) -> None:
    reached.emulator.faults.foreign = 2
    names = {one.custom_id for one in await reached.results(await reached.finished())}
    assert names == {*map(key_of, range(4)), "nobody-asked-0", "nobody-asked-1"}


async def test_what_is_readable_is_given_before_what_is_not(reached: Reached) -> None:
    reached.emulator.faults.garbage = 1
    batch = await reached.finished()
    given = []
    with pytest.raises(CallError, match="not a JSON"):
        async for one in reached.provider.results(batch, lambda _: 1):
            given.append(one)
    assert len(given) == 4


async def test_results_that_are_cut_off_are_a_lost_connection(reached: Reached) -> None:
    reached.emulator.faults.cut = True
    failure = await failure_of(reached.results(await reached.finished()))
    assert (failure.error_class, failure.retryable) == ("connection", True)
    reached.emulator.faults.cut = False
    assert (
        len(
            await reached.results(
                (await reached.found(await reached.metadata()))[0]
                if reached.name != "anthropic"
                else await _only(reached)
            )
        )
        == 4
    )


async def _only(reached: Reached) -> RemoteBatch:
    return await reached.provider.look(reached.emulator.batches[0].id)


async def test_a_cancelled_batch_keeps_what_was_done(reached: Reached) -> None:
    batch = await reached.submit(10)
    reached.emulator.now += 10 + 300
    # Its owner does that at the provider.
    reached.emulator.batches[0].cancelled = reached.emulator.now
    reached.emulator.now += HOUR_S
    ended = await reached.provider.look(batch.id)
    assert ended.state == "cancelled"
    results = await reached.results(ended)
    done = 0 if reached.name == "google_genai" else 5
    assert sum(one.failure is None for one in results) == done
    assert all(one.failure.retryable for one in results if one.failure is not None)
    assert len(reached.emulator.ledger.of("billed")) == done


async def test_an_expired_batch_keeps_what_was_done(reached: Reached) -> None:
    reached.emulator.work_s = 100 * HOUR_S
    batch = await reached.submit(10)
    reached.emulator.now += 50 * HOUR_S
    ended = await reached.provider.look(batch.id)
    assert ended.state == "expired"
    results = await reached.results(ended)
    done = sum(one.failure is None for one in results)
    assert results == [] if reached.name == "google_genai" else 0 < done < 10
    assert {failure.retryable for failure in failures(results).values()} <= {True}
    assert len(reached.emulator.ledger.of("billed")) == done


async def test_another_accounts_batch_is_not_there(reach_as: Reach) -> None:
    batch = await reach_as(OTHER_KEY).submit()
    mine = reach_as()
    with pytest.raises(NoSuchBatch, match=batch.id):
        await mine.provider.look(batch.id)
    assert await mine.found({"nonce": "n1"}) == []


async def test_a_wrong_key_is_said_and_nothing_is_taken(reach_as: Reach) -> None:
    reached = reach_as(WRONG_KEY)
    failure = await failure_of(reached.provider.submit(reached.rows(1), {"nonce": "n1"}))
    assert (failure.error_class, failure.retryable) == ("auth", False)
    assert reached.emulator.batches == []


async def test_a_batch_larger_than_its_limits_is_not_sent(
    reached: Reached, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = reached.provider
    rows = reached.rows(3)
    size = sum(len(provider.encoded(row)) for row in rows)
    for changes in ({"requests": 2}, {"bytes": size - 1}):
        limits = type(provider.limits)(**{"requests": 100, "bytes": 10**6, **changes})
        with monkeypatch.context() as patch:
            patch.setattr(provider, "limits", limits, raising=False)
            with pytest.raises(CallError, match="at most"):
                await provider.submit(rows, {"nonce": "n" * 16})
    assert not [path for path in reached.emulator.paths if path.startswith("POST")]


async def test_a_page_of_a_proxy_is_no_batch(reached: Reached) -> None:
    batch = await reached.submit()
    reached.emulator.faults.html = 1
    failure = await failure_of(reached.provider.look(batch.id))
    assert "reply" in str(failure) or "JSON" in str(failure)
    assert (await reached.provider.look(batch.id)).id == batch.id


async def test_results_are_not_fetched_from_where_they_are_redirected_to(reached: Reached) -> None:
    batch = await reached.finished()
    reached.emulator.faults.redirect = "http://127.0.0.1:9/elsewhere"
    failure = await failure_of(reached.results(batch))
    assert "redirects" in str(failure) and not failure.retryable


async def test_a_batch_is_deleted_with_its_files(reached: Reached) -> None:
    batch = await reached.finished()
    await reached.results(batch)
    await reached.provider.delete(batch)
    with pytest.raises(CallError):
        await _results_or_failure(reached, batch)
    await reached.provider.delete(batch)


async def test_files_that_a_key_may_not_delete_are_still_there(reach_as: Reach) -> None:
    batch = await reach_as().finished()
    failure = await failure_of(reach_as(WRONG_KEY).provider.delete(batch))
    assert failure.error_class == "auth"
    assert len(await reach_as().results(batch)) == 4


async def test_a_model_of_batches_says_who_waits_for_them(reached: Reached) -> None:
    backend = connect_batched(ModelName(reached.name, MODELS[reached.name]))
    with pytest.raises(CallError, match="answers in batches, within hours, and only `run`, `resume` and"):
        await exchange(backend.servers[0], call(), limit_s=10, retries=0)
    assert backend.batches is not None
    await backend.batches.provider.aclose()


async def _results_or_failure(reached: Reached, batch: RemoteBatch) -> None:
    try:
        await reached.results(batch)
    except Exception as error:
        raise classify(error) from error


async def test_a_body_that_the_online_endpoint_refuses_fails_its_row_alone(reached: Reached) -> None:
    rows = reached.rows(3)
    rows[1] = BatchRow(rows[1].custom_id, {**rows[1].body, "no_such_field": 1})
    batch = await reached.provider.submit(rows, await reached.metadata())
    reached.emulator.now += HOUR_S
    results = await reached.results(await reached.provider.look(batch.id))
    (index,) = failures(results)
    assert (index, len(results)) == (1, 3)
