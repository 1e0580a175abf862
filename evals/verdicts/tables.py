"""Tables 2 to 5 of Vladika and Matthes 2024 from one run: other passages are counted, none is read anew.

A run reads each passage by itself. So the vote over fewer documents, over fewer sentences, or over those that
pass a filter, is the vote of a run that would have read only those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from evals.verdicts.classes import NAMES, Classes
from evals.verdicts.recorded import Keep, Questions, read_questions
from evals.verdicts.scores import VerdictScores, score_questions
from nodes.reading.literature_records import EvidencePassage
from runs.folder import RunFolder

TableName = Literal["2", "3", "4", "5"]

TOP_K = (1, 5, 10, 15, 20, 50, 100)
TOP_J = (1, 3, 5, 10, 15, 20)
YEARS = (2020, 2018, 2015, 2010, 2005, 2000, 1990, 1980)
CITATIONS = (100, 75, 50, 25, 10, 5, 0)

FILTERED = 10
"""Documents that tables 4 and 5 filter; inferred, as the paper does not say it outright."""

TITLES: dict[TableName, str] = {
    "2": "Top-k documents",
    "3": "Top-j sentences",
    "4": "Earliest year of publication",
    "5": "Fewest citations",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One setting.

    Attributes:
        name: As the paper prints it.
        passages: Mean number of passages that were counted.
        without: Questions with none.
        scores: With three answers and with two; None where no key says one of them.
    """

    name: str
    passages: float
    without: int
    scores: dict[Classes, VerdictScores | None]


@dataclass(frozen=True, slots=True)
class VerdictTable:
    """A table.

    Attributes:
        left_out: Rows of the paper that the run did not read enough for.
        note: What a reader must know of its rows; empty where there is nothing.
    """

    table: TableName
    rows: tuple[Row, ...]
    left_out: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class VerdictTables:
    """The tables that a run has the readings for.

    Attributes:
        run: Its folder.
        caption: What the numbers are of.
        questions: How many are scored.
        tables: In the order of the paper.
    """

    run: str
    caption: str
    questions: int
    tables: tuple[VerdictTable, ...]

    def as_json(self) -> dict[str, Any]:
        """One object for programs."""
        return {
            "run": self.run,
            "caption": self.caption,
            "questions": self.questions,
            "tables": [
                {
                    "table": one.table,
                    "title": TITLES[one.table],
                    "left_out": list(one.left_out),
                    "note": one.note,
                    "rows": [_row_json(row) for row in one.rows],
                }
                for one in self.tables
            ],
        }


def make_tables(run: RunFolder, case_files: Sequence[Path] = ()) -> VerdictTables:
    """Count a run's readings in every way that its `doc_mode` allows.

    Raises:
        InputError: A case file cannot be read.
        ScoringError: Nothing can be scored.
    """
    questions = read_questions(run, case_files)
    settings = questions.recipe
    if settings.reading.doc_mode == "top_j":
        tables: tuple[VerdictTable, ...] = (
            _table("3", questions, _rows("j = {}", TOP_J, _first, at_most=settings.reading.j)),
        )
    else:
        deepest = settings.literature.k
        within = deepest >= FILTERED
        tables = (
            _table("2", questions, _rows("k = {}", TOP_K, _top, at_most=deepest)),
            _table("4", questions, _rows("since {}", YEARS if within else (), _since)),
            replace(
                _table("5", questions, _rows("cited {} times or more", CITATIONS if within else (), _cited)),
                note=_citation_note(questions),
            ),
        )
    return VerdictTables(
        run=str(run.path),
        caption=_caption(run, questions),
        questions=len(questions.answered),
        tables=tuple(one for one in tables if one.rows),
    )


def _rows(
    name: str, values: Sequence[int], keep: Callable[[int], Keep], at_most: int | None = None
) -> list[tuple[str, Keep | None]]:
    """Name and rule of each row; no rule where the run did not read that far."""
    return [
        (name.format(value), keep(value) if at_most is None or value <= at_most else None) for value in values
    ]


def _table(table: TableName, questions: Questions, rows: Sequence[tuple[str, Keep | None]]) -> VerdictTable:
    return VerdictTable(
        table,
        tuple(_row(name, questions.keeping(keep)) for name, keep in rows if keep is not None),
        tuple(name for name, keep in rows if keep is None),
    )


def _row(name: str, questions: Questions) -> Row:
    counts = [len(one.passages) for one in questions.answered]
    return Row(
        name=name,
        passages=sum(counts) / len(counts),
        without=counts.count(0),
        scores={classes: score_questions(questions, classes) for classes in NAMES},
    )


def _top(k: int) -> Keep:
    """By the rank of the search, whatever was filtered: the paper does not fill up."""
    return _where(lambda one: one["rank"] <= k)


def _first(j: int) -> Keep:
    return lambda passages: list(passages[:j])


def _since(year: int) -> Keep:
    return _where(lambda one: one["rank"] <= FILTERED and (one["year"] or 0) >= year)


def _cited(citations: int) -> Keep:
    return _where(lambda one: one["rank"] <= FILTERED and (one["citations"] or 0) >= citations)


def _where(kept: Callable[[EvidencePassage], bool]) -> Keep:
    return lambda passages: [one for one in passages if kept(one)]


def _citation_note(questions: Questions) -> str:
    counted = any(p["citations"] is not None for one in questions.answered for p in one.passages)
    return "" if counted else "no document that was read has a count of citations: only 0 or more keeps any"


def _caption(run: RunFolder, questions: Questions) -> str:
    """What was measured, and that it is not what the paper measured."""
    manifest = run.manifest
    assert manifest.literature is not None
    names = ", ".join(Path(path).name for path in manifest.inputs.paths)
    reading = questions.recipe.reading
    reader = manifest.models["label"].name if reading.asks_model else manifest.literature.reader
    as_of = questions.recipe.literature.as_of
    return (
        f"{len(questions.answered)} questions of {names}, {manifest.literature.corpus.documents:,} documents,"
        f" read by {reader}, {', '.join(reading.released) or f'doc_mode={reading.doc_mode}'}, as_of={as_of}."
        " The paper has 1,608 questions of HealthFC, TREC and BioASQ, 20.6 million documents and"
        " DeBERTa-v3-large as reader: the layout is its, the numbers are not comparable."
    )


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "passages": row.passages,
        "without_evidence": row.without,
        **{
            f"{classes}_answers": None if one is None else one.as_json()
            for classes, one in row.scores.items()
        },
    }
