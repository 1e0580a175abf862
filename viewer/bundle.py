"""The viewer's pages as files that open from disk or any web host."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runs.manifest import RunError
from runs.reading import Run
from runs.reviews import Reviews
from viewer.assets_of_pages import assets
from viewer.bundled import ASSETS, CALLS, CASES, INDEX, ROWS, BundledAddresses, Numbers, call_file, case_file
from viewer.charts import draw
from viewer.figures import figures
from viewer.opened_run import OpenedRun
from viewer.pages.case import call_page, case_page
from viewer.pages.run import rows_as_script, rows_document, run_page
from viewer.pages.runs import listed, runs_page
from viewer.redaction import RedactedRun

Advance = Callable[[int, int], None]
"""Told how many of how many cases are written."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was written; `bytes` is over all files."""

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
    """Write the pages of runs into a new folder; of a run that goes on, the cases that have ended.

    Args:
        paths: Run folders by name; a name becomes a folder and holds letters, digits and `-` only.
        out: The folder; it is made, and must not hold anything.
        redact: Leave out every text of a case: narratives, sentences, answers, prompts, replies.
        with_calls: Write a page for each prompt and reply; never where texts are left out.
        advance: Told how it goes.

    Raises:
        RunError: The folder is not empty, or a run cannot be read; nothing is left then.
        OSError: A file cannot be written.
    """
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out}: the folder is not empty; choose another --bundle")
    with_calls = with_calls and not redact
    opened = {
        name: OpenedRun(path, lambda _: None, RedactedRun if redact else Run) for name, path in paths.items()
    }
    existed = out.exists()
    try:
        return _Writer(opened, out, with_calls, advance).write()
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
        rows = [listed(name, run.path, *run.totals()) for name, run in self._runs.items()]
        self._put(INDEX, runs_page(rows, self._seen_from("")).encode())
        for name, run in self._runs.items():
            self._write_run(name, run)
        return Bundle(self._out, len(self._runs), self._total, self._files, self._bytes)

    def _write_run(self, name: str, run: OpenedRun) -> None:
        ended, addresses = run.ended(), self._seen_from("../")
        page = run_page(name, run.path, ended, run.totals()[1], addresses, rows_script=ROWS)
        self._put(f"{name}/{INDEX}", page.encode())
        self._put(f"{name}/{ROWS}", rows_as_script(rows_document(name, ended, 0, addresses)))
        for figure in figures(ended.summaries).values():
            self._put(f"{name}/{figure.name}.svg", draw(figure).encode())
        reviews = Reviews(run.path)
        for case_id, number in self._numbers[name].items():
            with run.reading() as reading:
                self._write_case(reading, name, case_id, number, reviews)
            self._written += 1
            self._advance(self._written, self._total)

    def _write_case(self, run: Run, name: str, case_id: str, number: int, reviews: Reviews) -> None:
        addresses = self._seen_from("../../")
        shown = None if isinstance(run, RedactedRun) else reviews
        page = case_page(run, name, case_id, addresses, shown, name_of=self._name_of)
        self._put(f"{name}/{CASES}/{case_file(number)}", page.encode())
        if self._with_calls:
            keys = dict.fromkeys(call["key"] for step in run.trace(case_id) for call in step.get("calls", ()))
            for key in keys:
                content = call_page(run, name, case_id, key, addresses).encode()
                self._put(f"{name}/{CALLS}/{call_file(number, key)}", content)

    def _name_of(self, path: Path) -> str | None:
        return self._names.get(path.resolve())

    def _seen_from(self, up: str) -> BundledAddresses:
        return BundledAddresses(self._numbers, up, with_calls=self._with_calls)

    def _put(self, place: str, content: bytes) -> None:
        path = self._out / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self._files += 1
        self._bytes += len(content)
