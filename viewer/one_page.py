"""A run as one file to show a colleague: it opens offline, fetches nothing, and links only within itself."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from evals.pages.page import write_page
from evals.pages.tables import Column, Table
from evals.run_scores import flat_scores, score_run
from evals.scoring.gold import ScoringError
from evals.scoring.scored_task import ScoredTask, title_of
from nodes.core.recipe import RecipeError
from prompts import PromptError
from prompts.versions import find_sources, packaged_versions
from runs.record.audit import record_if_possible
from runs.record.case_summary import CaseSummary
from runs.record.folder import RunFolder
from runs.record.manifest import Manifest
from runs.record.purged import purged_of
from runs.record.reading import Run
from serving.policy.gate import demand
from storage.errors import InputError
from viewer.addresses import Addresses
from viewer.bundle import RedactedRun
from viewer.opened_run import OpenedRun
from viewer.pages.case import case_values
from viewer.pages.runs import facts_of
from viewer.rendering import assets, render


class OnePage(NamedTuple):
    """The written file; `left_out` is the number of cases that it does not show."""

    file: Path
    cases: int
    left_out: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt; `text` is None if its file has changed since, or may hold texts of cases."""

    name: str
    version: str
    sha256: str
    text: str | None


def write_one_page(path: Path, file: Path, *, texts: bool = False, most: int = 50) -> OnePage:
    """Write the scores, prompts, models, cost and worst cases of a run into one new file.

    Args:
        path: The run folder.
        file: The HTML file.
        texts: Whether it holds notes, questions and answers; if not, ids, labels and scores.
        most: Most cases to show; the worst ones, or the first ones of a run without scores.

    Raises:
        RunError: The run cannot be read.
        PolicyError: Its policy forbids pages with texts.
        InputError: The file is there already, or cannot be written.
    """
    if file.exists():
        raise InputError(file, "is there already", "Choose another --html")
    folder = RunFolder(path)
    if texts:
        # The policy of the run binds since it was opened.
        demand("bundle_texts")
    opened = OpenedRun(path, lambda _: None, Run if texts else RedactedRun)
    try:
        page, cases, left_out = _page(folder, opened, texts, most)
    finally:
        opened.release()
    write_page(file, page)
    record_if_possible(path, "bundled", to=str(file), texts=texts)
    return OnePage(file, cases, left_out, file.stat().st_size)


def _page(folder: RunFolder, opened: OpenedRun, texts: bool, most: int) -> tuple[str, int, int]:
    """The page, and how many cases it shows and leaves out."""
    ended, addresses, name = opened.ended(), _Inlined(), folder.path.resolve().name
    tables, first = _scores(folder)
    by_case = {} if first is None else first.by_case()
    rows = sorted(ended.summaries, key=lambda row: by_case.get(row.case_id, float("inf")))
    shown = rows[:most]
    with opened.reading() as run:
        cases = [
            _case(run, name, row, place, addresses, _written(first, by_case.get(row.case_id)))
            for place, row in enumerate(shown)
        ]
    page = render(
        "one_page.html",
        **facts_of(name, folder.path, ended) | {"path": ""},
        addresses=addresses,
        texts=texts,
        tables=tables,
        prompts=list(_prompts(ended.manifest, texts)),
        score_name="" if first is None else title_of(first.case_score or first.headline),
        cases=cases,
        left_out=len(rows) - len(shown),
        # Scores have their own table.
        answers=(),
        evidence=None,
        outcomes=False,
        review_links=None,
    )
    return page, len(shown), len(rows) - len(shown)


def _case(run: Run, name: str, row: CaseSummary, place: int, addresses: Addresses, score: str) -> str:
    values = case_values(run, name, row.case_id, addresses, prefix=f"case-{place}-")
    return render("one_page_case.html", **values, row=row, score=score, place=place)


def _scores(folder: RunFolder) -> tuple[list[tuple[Table, Table]], ScoredTask | None]:
    """A table of main scores and one of further scores a task, and the first task.

    Of a purged run it is what was recorded before.
    """
    purged = purged_of(folder.path)
    if purged is not None:
        found = list(flat_scores(purged.scores))
        return [(Table(_HEADS[:2], found, "Scores"), Table(_HEADS, []))] if found else [], None
    try:
        scored = score_run(folder)
    except (ScoringError, InputError, RecipeError):
        return [], None
    return [_score_tables(one) for one in scored], next(iter(scored), None)


_HEADS = (Column("score", "text"), Column("value"), Column("95 %"))


def _score_tables(task: ScoredTask) -> tuple[Table, Table]:
    main = {score.name for score in task.scores if score.main}
    rows = {
        name: [title_of(name), task.form.number(one.value), task.form.bracket(one)]
        for name, one in task.intervals().items()
    }
    scored = f"{len(task.case_ids):,} scored; 95 % intervals by bootstrap over them."
    return (
        Table(
            _HEADS,
            [row for name, row in rows.items() if name in main],
            f"Scores: {task.title}",
            " ".join((scored, *task.notes)),
        ),
        Table(_HEADS, [row for name, row in rows.items() if name not in main]),
    )


def _written(task: ScoredTask | None, value: float | None) -> str:
    return "" if task is None or value is None else task.form.number(value)


def _prompts(manifest: Manifest, texts: bool) -> Iterable[_Prompt]:
    """Prompts of the run; a user's own ones may quote cases, so their text counts as text."""
    try:
        sources = find_sources(str(manifest.recipe.get("prompts")))
    except PromptError:
        sources = {}
    packaged = packaged_versions()
    for name, sha256 in manifest.prompts.items():
        source, text = sources.get(name), None
        if source is not None and (texts or source.version in packaged):
            content = source.file.read_bytes()
            text = content.decode() if hashlib.sha256(content).hexdigest() == sha256 else None
        yield _Prompt(name, "" if source is None or text is None else source.version, sha256, text)


class _Inlined(Addresses):
    """Addresses within the page: style sheets are part of it, and other pages do not exist."""

    policy = "default-src 'none'; style-src data:; base-uri 'none'; form-action 'none'"

    def asset(self, name: str) -> str:
        content, kind = assets()[name]
        return f"data:{kind.replace(' ', '')};base64,{b64encode(content).decode()}"

    def runs(self) -> str:
        return "#main"

    def run(self, run: str) -> str:
        return "#main"

    def rows(self, run: str) -> str:
        return "#main"

    def case(self, run: str, case_id: str) -> str:
        return "#main"

    def call(self, run: str, case_id: str, key: str) -> None:
        """Prompts and replies are left out."""
