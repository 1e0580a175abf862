"""What the program logs, as commands print it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from cli.terminal import show_log
from storage.errors import InputError

LOGGER = logging.getLogger("evigraph.serving")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    logger = logging.getLogger("evigraph")
    before = logger.level, logger.propagate, logger.handlers
    yield
    logger.level, logger.propagate, logger.handlers = before
    logger.manager._clear_cache()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("level", "shown"), [(None, "two\nthree\n"), ("debug", "one\ntwo\nthree\n"), ("warning", "three\n")]
)
def test_the_environment_sets_the_level(
    level: str | None, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("EVIGRAPH_LOG", raising=False)
    if level is not None:
        monkeypatch.setenv("EVIGRAPH_LOG", level)
    show_log()
    LOGGER.debug("one")
    LOGGER.info("two")
    LOGGER.warning("three")
    assert capsys.readouterr() == ("", shown)


def test_verbose_shows_every_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVIGRAPH_LOG", "warning")
    show_log(verbose=True)
    LOGGER.debug("one")
    assert capsys.readouterr() == ("", "one\n")


def test_a_message_is_one_safe_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_log()
    LOGGER.info("%s is away: \x1b[31m [bold]%s", "http://127.0.0.1:8000/v1", "x" * 200)
    assert capsys.readouterr().err == f"http://127.0.0.1:8000/v1 is away: \ufffd[31m [bold]{'x' * 200}\n"


def test_a_level_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIGRAPH_LOG", "loud")
    with pytest.raises(InputError, match=r"EVIGRAPH_LOG: no level 'loud'\. Levels are: debug, info"):
        show_log()
