from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.measuring.print_analysis import print_attribution
from evals.analysis.attribution import THRESHOLDS, WEIGHTS, attribution_sweep
from evals.scoring.gold import GoldCase, ScoringError
from ranking.measures import Counts, scores
from runs.record.folder import RunFolder

GOLD = {
    "keyed": GoldCase(
        "keyed",
        labels={"1": "essential", "2": "supplementary", "3": "not-relevant"},
        links=frozenset({("1", "1"), ("1", "3")}),
    ),
    "unlabelled": GoldCase("unlabelled"),
}


def run(*case_ids: str, **recipe: Any) -> RunFolder:
    """Each answer has a sentence that is like sentences 1 to 3 of the note by .9, .6 and .2."""
    pairs = [
        {"id": id_, "lexical": value, "fuzzy": value, "semantic": value}
        for id_, value in (("1", 0.9), ("2", 0.6), ("3", 0.2))
    ]
    lines = [{"case_id": id_, "status": "done", "attributions": {"1": pairs}} for id_ in case_ids]
    lines.append({"case_id": "failed", "status": "failed"})
    manifest = SimpleNamespace(recipe=recipe)
    return cast("RunFolder", SimpleNamespace(path=Path("run"), manifest=manifest, cases=lambda: lines))


def test_citations_are_scored_at_every_threshold_on_labelled_cases() -> None:
    made = run("keyed", "unlabelled", "elsewhere", citation={"threshold": 0.55})
    found = attribution_sweep(made, GOLD)
    assert (found.cases, found.labelled_cases, found.threshold) == (3, 1, 0.55)
    assert len(found.rows) == (len(THRESHOLDS) + 1) * len(WEIGHTS)
    by_threshold = {row.threshold: row for row in found.own_rows}
    assert list(by_threshold) == sorted({*THRESHOLDS, 0.55})
    row = by_threshold[0.55]
    assert (row.citations, row.cited, row.uncited) == (2, 2, 0)
    assert row.strict_micro == row.strict_macro == scores(Counts(1, 2, 1), "zero")
    assert row.lenient_micro == scores(Counts(2, 2, 2), "zero")
    assert row.clinician_micro == scores(Counts(1, 2, 2), "zero")
    assert found.as_json()["rows"][0]["strict_micro"]["recall"] == 100


def test_an_answer_that_cites_nothing_is_counted() -> None:
    found = attribution_sweep(run("keyed", citation={"threshold": 0.95}), GOLD)
    assert (found.own_rows[-1].uncited, found.own_rows[-1].strict_micro.f1) == (1, 0)


def test_a_run_without_attributions_is_refused() -> None:
    with pytest.raises(ScoringError, match="no answer of this run was attributed"):
        attribution_sweep(run(), GOLD)


def test_a_sweep_is_printed_with_its_caution(capsys: pytest.CaptureFixture[str]) -> None:
    print_attribution(attribution_sweep(run("keyed", citation={"threshold": 0.55}), GOLD))
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("run: 1 case attributed, 1 of them in a key attribution threshold")
    assert "few cases (1): the best threshold of the table is partly luck" in printed
    print_attribution(attribution_sweep(run("other"), GOLD))
    assert "attribution threshold" not in capsys.readouterr().out
