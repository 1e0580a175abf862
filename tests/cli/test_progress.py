"""Lines that long work prints where there is no terminal."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

import cli.progress
import cli.session
from cli.progress import progress
from cli.session import BatchWatcher
from runs.execute.watcher import Progress
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
        watcher.update(batch)
        watcher.update(batch)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "cases: 25%, 0 of 10 ended, 0 failed, 4 under way, 20 calls, 2/s, 4,000 tokens, 400/s,"
        " about 30 s left"
    )


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
        "cases: 2 of 4, 0.0056/s, 6 min 00 s left",
    ]


def test_what_loads_at_once_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("cases", 4), loading("the encoder tiny"):
        pass
    assert capsys.readouterr().err == ""
