"""Google's batches, whose metadata is a display name."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from serving.protocol.errors import CallError
from tests.serving.batches.emulators.google_genai import GoogleEmulator
from tests.serving.batches.harness import HOUR_S, Reached, key_of
from tests.serving.batches.test_batches import failure_of


@pytest.fixture
def provider_name() -> str:
    return "google_genai"


@pytest.fixture
async def service() -> AsyncIterator[GoogleEmulator]:
    one = GoogleEmulator()
    async with one.serving():
        yield one


def live_files(service: GoogleEmulator) -> list[str]:
    return [file.name for file in service.files.values() if not file.deleted]


async def test_a_lost_answer_to_a_submit_makes_no_second_batch(
    reached: Reached, service: GoogleEmulator
) -> None:
    service.faults.after = [0]
    await failure_of(reached.submit())
    assert len(service.batches) == 1


async def test_a_batch_that_fails_has_no_results(reached: Reached, service: GoogleEmulator) -> None:
    service.faults.fail_batch = "quota"
    batch = await reached.submit()
    service.now += HOUR_S
    failed = await reached.provider.look(batch.id)
    assert (failed.state, failed.final) == ("failed", True)
    assert await reached.results(failed) == []


async def test_a_batch_has_not_ended_before_its_results_are_there(
    reached: Reached, service: GoogleEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = service._shown
    batch = await reached.submit()
    service.now += HOUR_S
    with monkeypatch.context() as patch:

        def without_output(one: object) -> dict[str, object]:
            body = shown(one)  # type: ignore[arg-type]
            del body["metadata"]["output"]
            return body

        patch.setattr(service, "_shown", without_output)
        assert not (await reached.provider.look(batch.id)).final
    assert (await reached.provider.look(batch.id)).final


async def test_both_files_are_known_after_a_restart_and_deleted(
    reached: Reached, service: GoogleEmulator
) -> None:
    await reached.finished()
    (found,) = await reached.found({"nonce": "n1"})
    assert set(found.files) == set(live_files(service))
    assert len(found.files) == 2
    assert found.metadata == {"nonce": "n1", "rows": "4"}
    await reached.provider.delete(found)
    assert live_files(service) == []
    assert await reached.found({"nonce": "n1"}) == []


@pytest.mark.parametrize(("status", "left"), [(400, 0), (429, 1), (500, 1)])
async def test_an_upload_whose_batch_is_refused_is_deleted(
    reached: Reached, service: GoogleEmulator, status: int, left: int
) -> None:
    service.faults.before = [status]
    await failure_of(reached.submit())
    assert len(live_files(service)) == left


async def test_an_upload_is_not_sent_on_to_another_host(
    reached: Reached, service: GoogleEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        if request.headers["X-Goog-Upload-Command"] == "start":
            return await service._upload(request)
        raise web.HTTPTemporaryRedirect("http://127.0.0.1:9/elsewhere")

    routes = GoogleEmulator.routes(service)
    monkeypatch.setattr(
        service,
        "routes",
        lambda: [
            web.post("/upload/v1beta/files", elsewhere),
            *(one for one in routes if "upload" not in one.path),
        ],
    )
    async with service.serving():
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", service.url)
        other = Reached("google_genai", service)
        failure = await failure_of(other.submit())
        assert "redirects" in str(failure) and not failure.retryable
        await other.provider.aclose()


async def test_a_file_in_several_parts_is_uploaded_whole(
    reached: Reached, service: GoogleEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("google.genai._api_client.CHUNK_SIZE", 100)
    await reached.submit(2)
    (file,) = service.files.values()
    assert [json.loads(line)["key"] for line in file.content.splitlines()] == [key_of(0), key_of(1)]


async def test_metadata_that_no_display_name_holds_are_refused(reached: Reached) -> None:
    with pytest.raises(CallError, match="512"):
        await reached.provider.submit(reached.rows(1), {"nonce": "n1", "run": "r" * 500})


async def test_results_without_end_are_not_written_to_the_disk(
    reached: Reached, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.batches.providers.google_genai._MAX_RESULT_BYTES", 500)
    with pytest.raises(CallError, match="larger than 500 bytes"):
        await reached.results(await reached.finished())


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"response": "no"},
        {"response": {"usageMetadata": {"promptTokenCount": "many"}}},
        {"error": {"code": "no"}},
        {"error": {}},
        {"error": {"code": 7, "message": None}},
    ],
)
async def test_a_row_that_is_no_result_is_a_failure_of_this_row(
    reached: Reached, monkeypatch: pytest.MonkeyPatch, line: dict[str, object]
) -> None:
    monkeypatch.setattr(
        GoogleEmulator, "_line", lambda self, batch, index: {"key": batch.rows[index].custom_id} | line
    )
    results = await reached.results(await reached.finished(2))
    assert [one.custom_id for one in results] == [key_of(0), key_of(1)]
    assert all(one.failure is not None and not one.answers for one in results)


async def test_the_batches_of_others_are_passed_over_whatever_they_are_called(
    reached: Reached, service: GoogleEmulator
) -> None:
    await reached.submit()
    for name in ("", "my job", "[1]", "7", '{"nonce": 7}'):
        service.create("a-key", f"batches/x{len(service.batches)}", [], {"name": name, "model": "m"})
    service.now += HOUR_S
    assert len(await reached.found({"nonce": "n1"})) == 1
