"""Progress while cases are under way: what is expected of a case, what is shown, what others read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import runs.execute.expectation
from evals.bench.workload import ready, repeated_cases, six_calls, write_cases
from runs.execute.expectation import Expectation, LateReplies, shown_while_running
from runs.execute.rehearsal import forecast
from runs.execute.watcher import PROGRESS, Pace, Progress, SilentWatcher, read_progress, write_progress
from serving.backends.backend import Backend, Server
from serving.protocol.budget import Price
from serving.protocol.limits import Limits
from serving.protocol.messages import Answer
from serving.protocol.model_name import parse_model_name
from serving.protocol.request import Usage
from serving.requests.dispatcher import Dispatcher
from tests.serving.asks import as_sent


async def test_a_rehearsal_knows_the_calls_and_tokens_of_a_case(tmp_path: Path) -> None:
    assembly = await ready(six_calls(), write_cases(tmp_path, 2), parse_model_name("scripted:auto"))
    found = await forecast(assembly, repeated_cases(2), {"scripted:auto": Price(input=1, output=1)})
    assert found is not None
    assert found.calls == 8
    assert found.largest_call.tokens < found.spend.tokens < 8 * found.largest_call.tokens
    assert found.spend.cost == pytest.approx(found.spend.tokens / 1_000_000)
    # Of the run itself nothing is used up.
    expected = Expectation(assembly, (), progress := Progress(total=2), {})
    await expected.forecast()
    assert progress.calls_a_case == 8
    expected.ended(12)
    assert progress.calls_a_case == pytest.approx((2 * 8 + 12) / 3)


class Watching(SilentWatcher):
    """Keeps what it was shown."""

    def __init__(self) -> None:
        self.shares: list[float] = []
        self.news = asyncio.Event()
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def notify(self, text: str) -> None:
        self.lines.put_nowait(text)

    def update(self, progress: Progress) -> None:
        self.shares.append(progress.share)
        self.news.set()


async def test_calls_of_open_cases_are_shown_and_left_for_others_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_SHOW_EVERY_S", "_WRITE_EVERY_S"):
        monkeypatch.setattr(runs.execute.expectation, name, 0.0)
    progress, watching = Progress(total=2, under_way=2, calls_a_case=4.0), Watching()

    async def shown(share: float) -> None:
        async with asyncio.timeout(10):
            while not watching.shares or watching.shares[-1] != share:
                watching.news.clear()
                await watching.news.wait()

    async with shown_while_running(tmp_path, progress, watching):
        await shown(0.0)
        progress.usage.calls = 6
        await shown(0.75)
        progress.usage.calls = 8
        await shown(1.0)
        written = read_progress(tmp_path)
        assert written is not None and written.under_way == 2
    assert list(tmp_path.iterdir()) == []


def test_what_is_left_behind_is_read_while_it_is_fresh(tmp_path: Path) -> None:
    assert read_progress(tmp_path) is None
    path = tmp_path / PROGRESS
    usage = Usage(calls=3, input_tokens=40, output_tokens=2)
    write_progress(path, Progress(total=4, done=1, under_way=1, usage=usage), Pace(1.5, 20.0, None))
    found = read_progress(tmp_path)
    assert found is not None
    assert (found.share, found.calls, found.tokens, found.pace) == (0.25, 3, 42, Pace(1.5, 20.0, None))
    os.utime(path, (0, 0))
    assert read_progress(tmp_path) is None
    path.write_text('{"share": 1}')
    assert read_progress(tmp_path) is None


def test_requests_that_wait_for_long_are_reported_ever_more_seldom() -> None:
    late = LateReplies()
    assert late.line([119.0, 3.0]) is None
    assert late.line([121.0, 3.0]) == "1 request has waited 2 min for a reply (--timeout)"
    assert late.line([200.0, 130.0]) is None
    assert late.line([301.0, 231.0]) == "2 requests have waited 5 min for a reply (--timeout)"
    assert late.line([400.0]) is None
    assert late.line([]) is None
    assert late.line([125.0]) == "1 request has waited 2 min for a reply (--timeout)"


async def test_a_request_without_a_reply_is_reported_while_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs.execute.expectation, "_SHOW_EVERY_S", 0.0)
    monkeypatch.setattr(runs.execute.expectation, "LATE_S", 0.001)
    watching = Watching()
    asked, answered = asyncio.Event(), asyncio.Event()

    async def complete(*_: object) -> list[Answer]:
        asked.set()
        await answered.wait()
        return [Answer("Because.", "stop", 7, 3)]

    backend = Backend(parse_model_name("scripted:auto"), (Server("scripted:auto", complete),))
    dispatcher = Dispatcher([backend], Limits())
    request = asyncio.create_task(dispatcher.send(backend, as_sent()))
    await asked.wait()
    progress = Progress(total=2, under_way=2)
    async with shown_while_running(tmp_path, progress, watching, dispatcher.sent):
        async with asyncio.timeout(60):
            assert (await watching.lines.get()).startswith("1 request has waited")
    answered.set()
    await request
    assert dispatcher.sent == []
    await dispatcher.close()
