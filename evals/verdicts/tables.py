"""Tables 2 to 5 of Vladika and Matthes 2024 from one run: other passages are counted, none is read anew.

A run reads each passage by itself. So the vote over fewer documents, over fewer sentences, or over those that
pass a filter, is the vote of a run that would have read only those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cases.texts import plural
from evals.pages.page import render_page
from evals.pages.tables import NO_VALUE, Column, Format, Table
from evals.verdicts.scores import (
    NAMES,
    Classes,
    Keep,
    Questions,
    VerdictScores,
    read_questions,
    score_questions,
)
from nodes.reading.settings import LiteratureSettings, ReadingSettings
from nodes.retrieval.document_records import EvidencePassage
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
    reading = questions.recipe.section(ReadingSettings)
    if reading.doc_mode == "top_j":
        tables: tuple[VerdictTable, ...] = (
            _table("3", questions, _rows("j = {}", TOP_J, _first, at_most=reading.j)),
        )
    else:
        deepest = questions.recipe.section(LiteratureSettings).k
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
    names = ", ".join(Path(path).name for path in manifest.inputs.paths)
    reading = questions.recipe.section(ReadingSettings)
    documents = manifest.resources["corpus"]["documents"]
    reader = manifest.models["label"].name if reading.asks_model else manifest.resources["reader"]["reader"]
    as_of = questions.recipe.section(LiteratureSettings).as_of
    return (
        f"{plural(len(questions.answered), 'question')} of {names}, {plural(documents, 'document')},"
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


_MACRO = {"macro_precision": "P", "macro_recall": "R", "macro_f1": "F1"}
_ANSWERS: dict[Classes, str] = {3: "three answers", 2: "two answers"}
_DIGITS = Format(1)


def score_table(one: VerdictTable) -> Table:
    """Macro averages with three answers and with two, and the interval of F1."""
    heads = [Column("", "text"), Column("passages"), Column("no evidence", short="none")]
    for classes, group in _ANSWERS.items():
        heads += [Column(part, short=f"{classes}: {part}", group=group) for part in _MACRO.values()]
        heads.append(Column("95 %", "text", short="F1, 95 %", group=group))
    rows = []
    for row in one.rows:
        cells = [row.name, _DIGITS.number(row.passages), str(row.without)]
        for scores in row.scores.values():
            if scores is None:
                cells += [NO_VALUE, NO_VALUE, NO_VALUE, ""]
                continue
            cells += [_DIGITS.number(scores.values[name].value) for name in _MACRO]
            cells.append(_DIGITS.bracket(scores.values["macro_f1"]))
        rows.append(cells)
    return Table(heads, rows, title=f"Table {one.table}: {TITLES[one.table]}")


def narrow_table(one: VerdictTable) -> Table:
    """The same for a terminal: a line with three answers, and one below it with two."""
    heads = [Column("", "text"), Column("passages", short="read", wraps=False), Column("none", wraps=False)]
    heads += [Column(name, wraps=False) for name in ("answers", *_MACRO.values())]
    heads.append(Column("F1, 95 %", "text", wraps=False))
    rows = []
    for row in one.rows:
        first = [row.name, _DIGITS.number(row.passages), str(row.without)]
        for classes, scores in row.scores.items():
            values = [NO_VALUE] * len(_MACRO) + [""]
            if scores is not None:
                values = [_DIGITS.number(scores.values[name].value) for name in _MACRO]
                values.append(_DIGITS.bracket(scores.values["macro_f1"]))
            rows.append([*first, str(classes), *values])
            first = [""] * len(first)
    return Table(heads, rows, title=f"Table {one.table}: {TITLES[one.table]}")


def render(found: VerdictTables) -> str:
    """The tables as a page: numbers alone, no text of a question or a document."""
    return render_page("verdicts.html", found=found, score_table=score_table)
