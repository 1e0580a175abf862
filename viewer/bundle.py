"""The viewer's pages as files that open from disk or any web host, with or without the texts of cases."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cases.records import Case
from runs.record.audit import record_if_possible
from runs.record.folder import RunFolder
from runs.record.manifest import RunError
from runs.record.reading import Run
from runs.record.trace_file import Line
from runs.record.without_text import (
    case_without_text,
    line_without_text,
    step_without_text,
)
from runs.review.reviewers import ReviewedRun, Standing
from serving.policy.gate import demand
from serving.protocol.messages import Message
from viewer.addresses import Addresses
from viewer.opened_run import OpenedRun
from viewer.pages.case import call_page, case_page
from viewer.pages.runs import listed, rows_as_script, rows_document, run_page, runs_page
from viewer.rendering import assets

INDEX = "index.html"
ASSETS = "assets"
CASES = "cases"
CALLS = "calls"
ROWS = "rows.js"

Advance = Callable[[int, int], None]
"""Called with the number of cases written and their total."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The written files; `bytes` is their total size."""

    folder: Path
    runs: int
    cases: int
    files: int
    bytes: int


def write_bundle(
    paths: Mapping[str, Path],
    out: Path,
    *,
    redact: bool = False,
    with_calls: bool = True,
    advance: Advance = lambda *_: None,
) -> Bundle:
    """Write the pages of runs into a new folder; for a run in progress, the cases that have ended.

    Args:
        paths: Run folders by name; each name becomes a folder and has only letters, digits and `-`.
        out: The folder; created if missing, and must be empty.
        redact: Leave out all texts: narratives, sentences, answers, prompts, replies.
        with_calls: Write a page for each prompt and reply; ignored with `redact`.
        advance: Called after each case.

    Raises:
        RunError: The folder is not empty, or a run cannot be read; nothing is left then.
        PolicyError: A run's policy forbids texts in bundles.
        OSError: A file cannot be written.
    """
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out}: the folder is not empty; choose another --bundle")
    with_calls = with_calls and not redact
    if not redact:
        for path in paths.values():
            # Its policy binds from here on.
            RunFolder(path)
        demand("bundle_texts")
    opened = {
        name: OpenedRun(path, lambda _: None, RedactedRun if redact else Run) for name, path in paths.items()
    }
    existed = out.exists()
    try:
        written = _Writer(opened, out, with_calls, advance).write()
        for path in paths.values():
            record_if_possible(path, "bundled", to=str(out), texts=not redact)
        return written
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        if existed:
            out.mkdir()
        raise
    finally:
        for run in opened.values():
            run.release()


class _Writer:
    def __init__(self, runs: Mapping[str, OpenedRun], out: Path, with_calls: bool, advance: Advance) -> None:
        self._runs = runs
        self._out = out
        self._with_calls = with_calls
        self._advance = advance
        self._files = self._bytes = self._written = 0
        self._numbers: Numbers = {
            name: {row.case_id: number for number, row in enumerate(run.ended().summaries, start=1)}
            for name, run in runs.items()
        }
        self._names = {run.path.resolve(): name for name, run in runs.items()}
        self._total = sum(len(numbers) for numbers in self._numbers.values())

    def write(self) -> Bundle:
        for name, (content, _) in assets().items():
            self._put(f"{ASSETS}/{name}", content)
        rows = [listed(name, run.path, *run.totals(), run.answers()) for name, run in self._runs.items()]
        self._put(INDEX, runs_page(rows, self._seen_from("")).encode())
        for name, run in self._runs.items():
            self._write_run(name, run)
        return Bundle(self._out, len(self._runs), self._total, self._files, self._bytes)

    def _write_run(self, name: str, run: OpenedRun) -> None:
        if self._with_calls:
            # Not a bundle whose every page of a call says that there is none.
            with run.reading() as reading:
                reading.demand_journal()
        ended, addresses = run.ended(), self._seen_from("../")
        page = run_page(
            name, run.path, ended, run.totals()[1], addresses, rows_script=ROWS, answers=run.answers()
        )
        self._put(f"{name}/{INDEX}", page.encode())
        self._put(f"{name}/{ROWS}", rows_as_script(rows_document(name, ended, 0, addresses)))
        reviews = ReviewedRun(run.path)
        for case_id, number in self._numbers[name].items():
            with run.reading() as reading:
                self._write_case(reading, name, case_id, number, reviews)
            self._written += 1
            self._advance(self._written, self._total)

    def _write_case(self, run: Run, name: str, case_id: str, number: int, reviews: ReviewedRun) -> None:
        addresses = self._seen_from("../../")
        redacted = isinstance(run, RedactedRun)
        standing = Standing((), ()) if redacted else reviews.standing(case_id)
        page = case_page(
            run, name, case_id, addresses, standing, name_of=lambda path: self._names.get(path.resolve())
        )
        self._put(f"{name}/{CASES}/{case_file(number)}", page.encode())
        if self._with_calls:
            keys = dict.fromkeys(call["key"] for step in run.trace(case_id) for call in step.get("calls", ()))
            for key in keys:
                content = call_page(run, name, case_id, key, addresses).encode()
                self._put(f"{name}/{CALLS}/{call_file(number, key)}", content)

    def _seen_from(self, up: str) -> BundledAddresses:
        return BundledAddresses(self._numbers, up, with_calls=self._with_calls)

    def _put(self, place: str, content: bytes) -> None:
        path = self._out / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self._files += 1
        self._bytes += len(content)


# Some browsers treat each file on disk as its own origin, so `'self'` alone may block its neighbours.
_POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:;"
    " connect-src 'self'"
)

Numbers = Mapping[str, Mapping[str, int]]
"""Run to case id to the number of its page. Ids are data and never become a path."""


class BundledAddresses(Addresses):
    """Relative addresses, seen from one folder of the bundle. Files take no reviews and compare nothing."""

    policy = f"{_POLICY}; base-uri 'none'; form-action 'none'"

    def __init__(self, numbers: Numbers, up: str, *, with_calls: bool) -> None:
        self._numbers = numbers
        self._up = up
        self._with_calls = with_calls

    def asset(self, name: str) -> str:
        return f"{self._up}{ASSETS}/{name}"

    def runs(self) -> str:
        return f"{self._up}{INDEX}"

    def run(self, run: str) -> str:
        """A run's page; names of runs hold letters, digits and `-` only."""
        return f"{self._up}{run}/{INDEX}"

    def rows(self, run: str) -> str:
        """Its rows as a script: a page on disk cannot fetch JSON."""
        return f"{self._up}{run}/{ROWS}"

    def case(self, run: str, case_id: str) -> str:
        """A case's page; empty if it has none."""
        number = self._numbers[run].get(case_id)
        return "" if number is None else f"{self._up}{run}/{CASES}/{case_file(number)}"

    def call(self, run: str, case_id: str, key: str) -> str | None:
        if not self._with_calls:
            return None
        return f"{self._up}{run}/{CALLS}/{call_file(self._numbers[run][case_id], key)}"


def case_file(number: int) -> str:
    """The name of a case's page."""
    return f"{number:06d}.html"


def call_file(number: int, key: str) -> str:
    """The name of a call's page; keys are hexadecimal, and anything else in them is dropped."""
    return f"{number:06d}-{''.join(letter for letter in key if letter in '0123456789abcdef')[:24]}.html"


TEXTS_LEFT_OUT = "texts are left out of these pages"


class RedactedRun(Run):
    """A run without the texts of its cases: ids, labels, counts, times and routes remain."""

    def line(self, case_id: str) -> Line:
        """Without answers, interpreted questions, texts of passages and error messages."""
        return line_without_text(super().line(case_id), self.manifest.system)

    def trace(self, case_id: str) -> list[Line]:
        """Only facts and reasons that are known to contain no text."""
        return [step_without_text(step) for step in super().trace(case_id)]

    def case(self, case_id: str) -> Case | None:
        """Only sentence ids and labels."""
        case = super().case(case_id)
        return None if case is None else case_without_text(case)

    @property
    def texts_fault(self) -> str | None:
        return TEXTS_LEFT_OUT

    def conversation(self, key: str) -> list[Message]:
        raise KeyError(key)
