from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evals.bioasq.answer_tables import make_answer_table
from evals.experiments.render import as_csv, as_markdown, as_page
from evals.experiments.tables import PaperTable
from runs.folder import RunFolder
from tests.evals.bioasq.runs import failed, ideal_lines, make_run

Line = dict[str, Any]


def wrong(line: Line) -> Line:
    exact = line["exact_answer"]
    return {**line, "exact_answer": "yes" if isinstance(exact, str) else [["x"]], "answer": "Nobody knows."}


def cell(folder: Path, lines: list[Line], shots: int, style: int, model: str = "scripted:one") -> RunFolder:
    return make_run(
        folder / f"{model[-3:]}{shots}{style}{len(list(folder.iterdir()))}",
        lines,
        model=model,
        exact={"shots": shots, "style": style},
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """A good and a bad setting of one model, and another model with a failed question."""
    folder = tmp_path_factory.mktemp("cells")
    good = ideal_lines()
    return {
        "bad": cell(folder, [wrong(line) for line in good], 1, 1),
        "good": cell(folder, good, 10, 1),
        "other": cell(folder, [*good[:-1], failed(good[-1])], 1, 1, "scripted:two"),
    }


@pytest.fixture(scope="module")
def exact(runs: dict[str, RunFolder]) -> PaperTable:
    table = make_answer_table("bioasq-4", runs)
    assert table is not None
    return table


def numbers(table: PaperTable) -> list[list[float | None]]:
    return [[None if one is None else round(one.value, 6) for one in row.values] for row in table.rows]


def test_rows_are_shots_and_styles_and_columns_are_of_each_model(exact: PaperTable) -> None:
    assert [row.name for row in exact.rows] == ["1-shot + style 1", "10-shots + style 1"]
    assert exact.columns[0] == "scripted:one: Yes/No (maF1)"
    assert exact.columns[4] == "scripted:two: Factoid (MRR)"


def test_a_row_says_where_questions_were_shown_fewer_examples(tmp_path: Path) -> None:
    lines = ideal_lines()
    flagged = [{**lines[0], "flags": ["few_shots"]}, *lines[1:]]
    table = make_answer_table("bioasq-4", {"ten": cell(tmp_path, flagged, 10, 1)})
    assert table is not None
    assert [row.name for row in table.rows] == ["10-shots + style 1, fewer where none were left"]


def test_values_are_those_of_each_run(exact: PaperTable) -> None:
    first, second = numbers(exact)
    assert first[1:] == [0, 0, 100, 100, 100]
    assert second == [100, 100, 100, None, None, None]
    # Half of the questions of yes or no are answered yes.
    assert first[0] == pytest.approx(100 / 3, abs=1e-5)


def test_rows_are_held_against_the_first(exact: PaperTable) -> None:
    first, second = exact.rows
    assert exact.headline == "scripted:one: Factoid (MRR)"
    assert first.to_first is None and second.to_first is not None
    assert second.to_first.difference.value == pytest.approx(100)
    assert second.to_first.p_value == pytest.approx(2 / 2**6)


def test_only_questions_that_every_run_has_done_count(exact: PaperTable) -> None:
    assert exact.cases == 23


def test_ideal_answers_have_a_table_of_their_own(runs: dict[str, RunFolder]) -> None:
    table = make_answer_table("bioasq-5", {"bad": runs["bad"], "good": runs["good"]})
    assert table is not None
    assert table.columns == ("ROUGE-2 Recall", "ROUGE-2 Precision", "ROUGE-2 F1")
    low, high = (row.values[2] for row in table.rows)
    assert low is not None and high is not None and low.value == 0 and high.value > 90


def test_equal_settings_are_told_apart_by_their_cells(tmp_path: Path) -> None:
    twice = {name: cell(tmp_path, ideal_lines(), 1, 2) for name in ("a", "b")}
    table = make_answer_table("bioasq-4", twice)
    assert table is not None
    assert [row.name for row in table.rows] == ["1-shot + style 2", "1-shot + style 2 (b)"]


def test_tables_are_written_in_every_form(exact: PaperTable) -> None:
    assert "| 10-shots + style 1 | 1.0000" in as_markdown([exact], [])
    assert "bioasq-4,10-shots + style 1,scripted:one: Factoid (MRR),1.0000" in as_csv([exact])
    assert "Exact answers by shots, style and model" in as_page([exact], [])


def test_without_a_run_there_is_no_table() -> None:
    assert make_answer_table("bioasq-4", {}) is None
