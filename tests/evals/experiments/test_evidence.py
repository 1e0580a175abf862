from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from evals.experiments.definition import Experiment
from evals.experiments.evidence import ALL_SENTENCES, EvidenceRow, make_evidence_table, sentence_scores
from evals.experiments.render import as_csv, as_markdown, as_object, as_page, costs_of, table_of
from evals.experiments.report import ExperimentReport, report
from evals.experiments.run import Cells
from evals.experiments.tables import Costs, PaperTable
from evals.metrics.text_metric import MetricResources
from evals.scoring.score import score
from evals.statistics.sign_flip import holm
from runs.record.folder import RunFolder
from tests.evals.scoring.examples import evidence, labelled
from tests.evals.scoring.runs import done, failed, make_run
from tests.evigraph import edit_manifest

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


def test_without_any_evidence_there_is_no_column_of_average_precision() -> None:
    key = {id_: labelled(id_, "", "", "12") for id_ in KEY}
    rows = {"half": EvidenceRow(score("2026-2", [evidence(id_, "1") for id_ in key], key), {})}
    found = make_evidence_table(rows, key)
    assert found is not None and found.columns == ("P", "R", "F1")


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


VOTES = {"vote_counts": {"1": 3, "2": 2, "3": 1}, "usable_votes": 3, "evidence": {}}
SESSION = {"command": "run", "started": "2026-01-01T00:00:00+00:00", "calls": 3, "replayed": 1}


@pytest.fixture
def cells(tmp_path: Path) -> Cells:
    """`voting`, of whose three cases one failed; `bare`, whose only case failed."""
    runs = {}
    for name, ended in (("voting", [_voted("7", 2), _voted("8", 4), failed("9")]), ("bare", [failed("7")])):
        (tmp_path / name).mkdir()
        labels = {"1": "essential", "2": "not-relevant", "3": "essential"}
        made = make_run(tmp_path / name, "789", ended, labels=labels)
        counts = {"done": len(ended) - 1, "failed": 1}
        sessions = [{**SESSION, "processor_seconds": 1.5}, {**SESSION, "processor_seconds": 4.5}]
        edit_manifest(made.path, counts=counts, sessions=sessions)
        runs[name] = RunFolder(made.path)
    return Cells(runs, {})


def _voted(case_id: str, calls: int) -> dict[str, object]:
    usage = {"calls": calls, "input_tokens": 100 * calls, "output_tokens": 10 * calls}
    return (
        done(case_id, labels={"1": "essential", "2": "essential", "3": "not-essential"}, usage=usage) | VOTES
    )


def reported(cells: Cells, table: str, folder: Path) -> ExperimentReport:
    values = {"cells": {name: {} for name in cells.reported}, "tables": {table: list(cells.reported)}}
    return report(Experiment.model_validate(values), cells, folder, MetricResources())


def test_a_row_of_a_run_has_its_figures_and_costs_and_one_without_evidence_is_named(
    cells: Cells, tmp_path: Path
) -> None:
    made = reported(cells, "evidence", tmp_path)
    (found,) = made.tables
    assert [row.name for row in found.rows] == ["voting", ALL_SENTENCES]
    assert (value(found, "voting", "P"), value(found, "voting", "R")) == (50, 50)
    assert value(found, "voting", "mean AP") == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert found.rows[0].costs == Costs(3, 300, 30, 2.0, 0.25)
    assert any(note.startswith("bare is left out of table evidence: no predictions") for note in made.notes)
    assert "voting: 1 case failed, counted in no row." in made.notes


def test_a_run_that_shares_nothing_with_its_key_has_no_row_of_scores(cells: Cells, tmp_path: Path) -> None:
    made = reported(cells, "scores", tmp_path)
    assert {row.name for table in made.tables for row in table.rows} == {"voting"}
    assert "bare is left out of table scores: the run and its key share nothing to score." in made.notes


@pytest.mark.parametrize(
    ("labels", "added"),
    [
        (
            {"1": "essential", "2": "not-relevant", "3": "not-relevant"},
            ["voting, T = 3 tuned on the other split"],
        ),
        (None, []),
    ],
)
def test_a_threshold_is_tuned_on_a_split_with_labels_alone(
    cells: Cells, tmp_path: Path, labels: dict[str, str] | None, added: list[str]
) -> None:
    (tmp_path / "split").mkdir()
    tuning = make_run(tmp_path / "split", "12", [_voted("1", 1), _voted("2", 1)], labels=labels)
    runs = {"voting": cells.reported["voting"]}
    made = reported(Cells(runs, {"voting": tuning}), "3", tmp_path)
    assert [row.name for row in made.tables[0].rows] == ["voting", *added]


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
