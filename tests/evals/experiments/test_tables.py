from __future__ import annotations

import pytest

from cases.submissions.archehr import Prediction
from evals.experiments.render import as_csv, as_markdown
from evals.experiments.tables import PaperTable, make_score_tables, make_table
from evals.scoring.gold import GoldCase
from evals.scoring.score import ArchehrScores, score
from tests.evals.scoring.examples import evidence, labelled

KEY = {str(n): labelled(str(n), "12", "3", "4") for n in range(6)}


def row(*ids: str) -> ArchehrScores:
    return score("2026-2", [evidence(str(n), made) for n, made in enumerate(ids)], KEY)


PERFECT = row("12", "12", "12", "12", "12", "12")
HALF = row("1", "2", "14", "1", "2", "23")


def made(scored: dict[str, ArchehrScores]) -> PaperTable:
    table = make_table("3", scored)
    assert table is not None
    return table


def test_table_3_has_the_columns_of_the_paper() -> None:
    columns = made({"few-shot": PERFECT}).columns
    assert columns[:6] == (
        "Strict Macro P",
        "Strict Macro R",
        "Strict Macro F1",
        "Strict Micro P",
        "Strict Micro R",
        "Strict Micro F1",
    )
    assert len(columns) == 12


def test_lenient_is_that_of_the_paper_which_wants_supplementary_sentences() -> None:
    table = made({"few-shot": PERFECT})
    value = table.rows[0].values[table.columns.index("Lenient Micro R")]
    assert value is not None
    assert value.value == pytest.approx(100 * 2 / 3)


def test_rows_are_compared_with_the_first() -> None:
    first, second = made({"half": HALF, "perfect": PERFECT}).rows
    assert first.to_first is None
    assert second.to_first is not None
    gain = PERFECT.values["strict_micro_f1"] - HALF.values["strict_micro_f1"]
    assert second.to_first.difference.value == pytest.approx(gain)
    assert second.to_first.difference.low > 0


def test_only_cases_of_all_rows_count() -> None:
    table = made({"half": HALF, "short": row("12", "12", "12")})
    assert table.cases == 3
    of_three = row("1", "2", "14")
    value = table.rows[0].values[table.columns.index("Strict Micro F1")]
    assert value is not None
    assert value.value == pytest.approx(of_three.values["strict_micro_f1"])


def test_rows_without_a_common_case_make_no_table() -> None:
    other = score("2026-2", [evidence("5", "1")], KEY)
    assert make_table("3", {"half": row("12"), "other": other}) is None
    assert make_table("3", {}) is None
    assert make_score_tables({"half": [row("12")], "other": [other]}) == []


ANSWERED = {
    str(n): GoldCase(str(n), answer=f"The drain stays for {n} days.", narrative="How long, doctor?")
    for n in range(3)
}
ANSWERS = [Prediction(str(n), answer="The drain stays for 1 days.") for n in range(3)]


def test_without_an_official_overall_score_there_is_a_mean_with_a_name_of_its_own() -> None:
    table = make_table("6", {"generic": score("2026-3", ANSWERS, ANSWERED)})
    assert table is not None
    overall = table.rows[0].values[table.columns.index("Overall")]
    mean = table.rows[0].values[table.columns.index("mean of available (BLEU, ROUGE-Lsum, SARI)")]
    assert overall is None
    assert mean is not None
    assert set(table.not_computed) == {"BERTScore", "AlignScore", "MEDCON"}
    assert table.headline.startswith("mean of available")


def test_markdown_prints_evidence_as_shares_as_the_paper_does() -> None:
    text = as_markdown([made({"perfect": PERFECT})], ["A note."])
    assert "## Table 3. Evidence by step" in text
    assert "| perfect | 1.0000 [1.0000, 1.0000] |" in text
    assert "A note." in text


def test_comma_separated_values_are_one_line_each() -> None:
    lines = as_csv([made({"perfect": PERFECT, "half": HALF})]).splitlines()
    assert lines[0] == "table,row,column,value,low,high,cases"
    # Of the second row its difference and p as well.
    assert len(lines) == 1 + 2 * 12 + 2
    assert lines[1] == "3,perfect,Strict Macro P,1.0000,1.0000,1.0000,6"
