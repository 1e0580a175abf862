from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from evals.experiments.evidence import ALL_SENTENCES, EvidenceRow, make_evidence_table, sentence_scores
from evals.experiments.render import as_csv, as_markdown, as_object, as_page, costs_of, table_of
from evals.experiments.tables import Costs, PaperTable
from evals.scoring.score import score
from evals.statistics.sign_flip import holm
from tests.evals.scoring.examples import evidence, labelled

KEY = {str(n): labelled(str(n), "12", "3", "45") for n in range(8)}
COSTS = Costs(2, 1000, 50, 3.25, 0.5)


def row(*ids: str, ranked: float | None = None) -> EvidenceRow:
    made = [evidence(str(n), one) for n, one in enumerate(ids)]
    precisions = {} if ranked is None else dict.fromkeys(KEY, ranked)
    return EvidenceRow(score("2026-2", made, KEY), precisions, COSTS)


PERFECT = row(*["12"] * 8, ranked=1.0)
HALF = row("1", "2", "14", "1", "2", "23", "15", "4")


def table(**rows: EvidenceRow) -> PaperTable:
    made = make_evidence_table(rows, KEY)
    assert made is not None
    return made


def value(made: PaperTable, name: str, column: str) -> float | None:
    (found,) = [row for row in made.rows if row.name == name]
    interval = found.values[made.columns.index(column)]
    return None if interval is None else interval.value


def test_values_are_those_of_the_official_scorer() -> None:
    made = table(half=HALF)
    for column, name in (("P", "precision"), ("R", "recall"), ("F1", "f1")):
        assert value(made, "half", column) == pytest.approx(HALF.scores.values[f"strict_micro_{name}"])


def test_mean_average_precision_is_there_where_sentences_have_scores() -> None:
    made = table(half=HALF, perfect=PERFECT)
    assert value(made, "half", "mean AP") is None
    assert value(made, "perfect", "mean AP") == pytest.approx(100)
    # Without a score the note's own order, where both essential sentences come first.
    assert value(made, ALL_SENTENCES, "mean AP") == pytest.approx(100)


def test_a_row_that_ranks_some_cases_alone_has_no_mean() -> None:
    some = replace(PERFECT, precisions={"0": 1.0})
    assert value(table(half=HALF, some=some), "some", "mean AP") is None


def test_cases_without_evidence_count_for_f1_and_not_for_average_precision() -> None:
    key = {**KEY, "empty": labelled("empty", "", "", "12")}
    made = [*(evidence(id_, "12") for id_ in KEY), evidence("empty", "")]
    rows = {"perfect": EvidenceRow(score("2026-2", made, key), dict.fromkeys(KEY, 0.5))}
    found = make_evidence_table(rows, key)
    assert found is not None and found.cases == 9
    assert value(found, "perfect", "mean AP") == pytest.approx(50)


def test_rows_are_compared_with_the_first_and_with_every_sentence() -> None:
    first, second, baseline = table(half=HALF, perfect=PERFECT).rows
    assert first.to_first is None and baseline.to_baseline is None
    assert first.to_baseline is not None and second.to_first is not None
    assert second.to_baseline is not None and baseline.to_first is not None
    assert second.to_first.difference.low > 0
    assert second.to_baseline.difference.value == pytest.approx(100 - 200 * 0.4 / 1.4)


def test_p_values_allow_for_the_number_of_rows() -> None:
    alone = table(half=HALF, perfect=PERFECT)
    many = table(half=HALF, perfect=PERFECT, again=PERFECT, third=PERFECT)
    one, other = (next(row.to_first for row in made.rows if row.name == "perfect") for made in (alone, many))
    assert one is not None and other is not None
    # Two comparisons with the first row against four.
    assert other.p_value == pytest.approx(2 * one.p_value)


def test_only_cases_of_every_row_count() -> None:
    short = row("12", "12", "12")
    made = table(half=HALF, short=short)
    assert made.cases == 3
    of_three = row("1", "2", "14").scores.values["strict_micro_f1"]
    assert value(made, "half", "F1") == pytest.approx(of_three)


def test_rows_without_a_common_case_make_no_table() -> None:
    other = EvidenceRow(score("2026-2", [evidence("5", "1")], KEY), {})
    assert make_evidence_table({"half": row("12"), "other": other}, KEY) is None
    assert make_evidence_table({}, KEY) is None


def test_the_order_of_a_cells_cases_does_not_matter() -> None:
    turned = [evidence(str(n), one) for n, one in enumerate(("1", "2", "14", "1", "2", "23", "15", "4"))][
        ::-1
    ]
    made = table(half=HALF, turned=EvidenceRow(score("2026-2", turned, KEY), {}))
    difference = made.rows[1].to_first
    assert difference is not None
    assert difference.difference[:3] == (0, 0, 0) and difference.p_value == 1


@pytest.mark.parametrize(
    ("line", "scores"),
    [
        ({"labels": {"1": "essential"}}, {}),
        ({"vote_counts": {"1": 3, "2": 0}, "usable_votes": 3, "label_confidence": None}, {"1": 3, "2": 0}),
        ({"vote_counts": {"1": 1}, "usable_votes": 1, "label_confidence": {"1": 0.7}}, {"1": 0.7}),
        ({"vote_counts": {"1": 1}, "usable_votes": 1, "label_confidence": {"1": None}}, {"1": 1}),
        (
            {
                "vote_counts": {"1": 1},
                "usable_votes": 1,
                "ranker_vote": {"essential": ["1"]},
                "ranker_scores": {"1": -2.5},
            },
            {"1": -2.5},
        ),
        (
            {
                "vote_counts": {"1": 3},
                "usable_votes": 4,
                "ranker_vote": {"essential": []},
                "ranker_scores": {"1": -2.5},
                "label_confidence": {"1": 0.1},
            },
            {"1": 3},
        ),
        (
            {
                "vote_counts": {"1": 1},
                "usable_votes": 2,
                "ranker_vote": {"essential": []},
                "ranker_scores": {"1": -2.5},
                "model_scores": {"1": 0.4},
                "label_confidence": {"1": 0.3},
            },
            {"1": 0.3},
        ),
    ],
    ids=[
        "labels alone",
        "votes",
        "probabilities",
        "some probabilities",
        "ranker alone",
        "both",
        "both, pointwise",
    ],
)
def test_scores_of_sentences(line: dict[str, object], scores: dict[str, float]) -> None:
    assert sentence_scores({"case_id": "1", **line}) == scores


def test_every_form_has_differences_and_costs() -> None:
    made = table(half=HALF, perfect=PERFECT)
    text = as_markdown([made], [])
    assert "## Evidence by system and recipe" in text
    assert "| mean AP | to half | p to half | to all sentences | p to all sentences |" in text
    assert "| perfect | 2.0 | 1,000 | 50 | 3.2 | 50 |" in text
    assert "corrected for the number of rows (Holm)" in text
    lines = list(csv.DictReader(io.StringIO(as_csv([made]))))
    found = {line["column"]: line["value"] for line in lines if line["row"] == "perfect"}
    assert found["F1"] == "1.000" and found["calls"] == "2.0" and float(found["p to half"]) <= 1
    page = as_page([made], [])
    assert page.count("<svg") == 1 and "to all sentences" in page
    perfect = as_object(made)["rows"][1]
    assert perfect["costs"]["processor_seconds"] == 3.25
    assert perfect["difference_to_baseline"]["value"] > 0


def test_the_terminal_gets_the_columns_that_fit() -> None:
    shown = table_of(table(half=HALF), headline_only=True)
    heads = [column.heading for column in shown.columns]
    assert all(len(row) == len(heads) for row in shown.rows)
    assert heads == ["", "F1", "to half", "p", "to all sentences", "p", "calls", "s"]


def test_costs_that_were_not_recorded_are_left_blank() -> None:
    made = table(half=replace(HALF, costs=replace(COSTS, processor_seconds=None)))
    assert [cell.text for cell in costs_of(made).cells[0][-2:]] == ["-", "50"]


def test_holm_multiplies_the_smallest_by_all_and_never_turns_the_order() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1, 1])
    assert holm([]) == []
