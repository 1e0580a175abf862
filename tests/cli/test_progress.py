"""Lines that long work prints without a terminal."""

from __future__ import annotations

import io
import itertools
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

import cli.progress
import cli.session
from cases.texts import per_time
from cli.progress import progress
from cli.session import BatchWatcher
from runs.execute.watcher import PaceMeter, Progress
from serving.protocol.request import Usage
from weights.loading import loading


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a minute whenever it is read."""
    times = itertools.count(step=60)
    clock = SimpleNamespace(monotonic=lambda: float(next(times)))
    monkeypatch.setattr(cli.progress, "time", clock)


@pytest.mark.usefixtures("minutes")
def test_a_line_has_the_count_the_details_the_rate_and_the_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress("cases", 1_000) as shown:
        shown.advance(200)
        shown.advance(600, details="3 failed")
    first, second = capsys.readouterr().err.splitlines()
    # What was there at the first report was not done in this minute.
    assert first == "cases: 200 of 1,000"
    # Two readings later, for the line of the first report and for this one.
    assert second == "cases: 600 of 1,000, 3 failed, 3.3/s, 2 min 00 s left"


@pytest.mark.usefixtures("minutes")
def test_a_share_is_shown_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as shown:
        shown.start("reading", 2**30, percent=True)
        shown.advance(2**28, details="12,000 documents")
    assert capsys.readouterr().err == "reading: 25%, 12,000 documents\n"


@pytest.mark.usefixtures("minutes")
def test_work_without_a_count_shows_its_details(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("server") as shown:
        shown.advance(details="starting vLLM, 15 s")
    assert capsys.readouterr().err == "server: starting vLLM, 15 s\n"


@pytest.mark.usefixtures("minutes")
def test_tasks_side_by_side_have_their_own_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as shown:
        shown.start("one", 10)
        shown.start("other", 20)
        shown.advance(1, task="one")
        shown.stop("one")
        shown.advance(2)
    assert capsys.readouterr().err.splitlines() == ["one: 1 of 10", "other: 2 of 20"]


def test_short_work_prints_nothing_but_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("cases", 2) as shown:
        shown.advance(1)
        shown.notify("a server is away")
        shown.advance(2)
    assert capsys.readouterr().err == "a server is away\n"


@pytest.mark.usefixtures("minutes")
def test_a_batch_shows_calls_rates_and_time_left_before_a_case_has_ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = itertools.count(step=10)
    monkeypatch.setattr(cli.session, "time", SimpleNamespace(monotonic=lambda: float(next(times))))
    usage = Usage(calls=20, input_tokens=3_000, output_tokens=1_000)
    batch = Progress(total=10, under_way=4, usage=usage, calls_a_case=8.0)
    with progress() as shown:
        watcher = BatchWatcher(shown)
        watcher.update(Progress(total=10))
        watcher.update(batch)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "cases: 0 of 10, 0%, 30 s left, 4 under way, 2 calls/s, 400 tokens/s, 20 calls, 4,000 tokens"
    )


def test_at_80_columns_the_line_keeps_bar_cases_time_left_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(cli.progress, "messages", lambda: console)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    times = itertools.count(step=60)
    monkeypatch.setattr(cli.session, "time", SimpleNamespace(monotonic=lambda: float(next(times))))
    usage = Usage(calls=1_488, input_tokens=4_464_000, output_tokens=59_520, cost=1.5376)
    batch = Progress(total=150, done=120, failed=4, under_way=8, max_cost=5.0, usage=usage)
    batch.calls_a_case, batch.cases_ended, batch.calls_ended = 12.0, 124, 1_488
    with progress() as shown:
        watcher = BatchWatcher(shown)
        watcher.update(Progress(total=150))
        watcher.update(batch)
    assert "cases ━━━━━━━━" in terminal.getvalue()
    assert " 124 of 150, 83%, 4 failed, 13 s left, cost 1.538 of 5, 8 un" in terminal.getvalue()


def test_rates_are_those_of_the_last_minute_and_the_time_left_that_of_the_session() -> None:
    meter, batch = PaceMeter(), Progress(total=10, calls_a_case=10.0, under_way=1)
    paces = []
    for now, calls in ((0.0, 0), (30.0, 60), (60.0, 60), (90.0, 60), (120.0, 66)):
        batch.usage.calls = calls
        paces.append(meter.read(batch, now).calls_per_second)
    assert paces == [0.0, 2.0, 1.0, 0.0, 0.1]
    assert meter.read(batch, 120.0).seconds_left == pytest.approx(90 * 120 / 66)


@pytest.mark.parametrize(
    ("rate", "noun", "words"),
    [
        (230.4, "call", "230 calls/s"),
        (2.46, "call", "2.5 calls/s"),
        (1.0, "call", "1 call/s"),
        (0.2, "call", "12 calls/min"),
        (0.0056, "", "20/h"),
        (12_345.0, "token", "12,345 tokens/s"),
    ],
)
def test_a_rate_is_in_the_unit_that_people_would_say(rate: float, noun: str, words: str) -> None:
    assert per_time(rate, noun) == words


@pytest.mark.usefixtures("minutes")
def test_what_takes_long_to_load_is_named_while_it_does_and_when_it_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress("cases", 4) as shown:
        with loading("the encoder tiny"):
            shown.advance(1)
        shown.advance(2)
    assert capsys.readouterr().err.splitlines() == [
        "cases: 1 of 4, loading the encoder tiny",
        "loaded the encoder tiny in 3 min 00 s",
        "cases: 2 of 4, 20/h, 6 min 00 s left",
    ]


def test_what_loads_at_once_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("cases", 4), loading("the encoder tiny"):
        pass
    assert capsys.readouterr().err == ""


def test_bars_come_and_go_with_their_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(cli.progress, "messages", lambda: console)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress() as shown:
        assert isinstance(shown, cli.progress._Bars)
        bars = shown._bars

        def tasks() -> list[tuple[str, float]]:
            return [(task.description, task.completed) for task in bars.tasks]

        shown.start("cases", 10)
        shown.advance(4)
        shown.loading("weights", True)
        shown.loading("words", True)
        assert tasks() == [("cases", 4), ("loading weights", 0), ("loading words", 0)]
        shown.loading("weights", False)
        shown.start("cases", 20)
        assert tasks() == [("loading words", 0), ("cases", 0)]
        shown.loading("words", False)
        shown.stop("cases")
        assert tasks() == []
