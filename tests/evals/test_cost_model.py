"""Figures of a run, carried on to millions of cases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evals.cost_model import Measured, Wanted, main, measure, project
from runs.folder import RunFolder
from runs.manifest import RunError
from tests.evigraph import evigraph, write_cases, write_recipe

MEASURED = Measured(
    cases=10,
    calls=6.0,
    input_tokens=5000.0,
    cached_tokens=3000.0,
    output_tokens=500.0,
    processor_s=0.02,
    bytes={"calls.sqlite": 4000.0, "cases.jsonl": 1000.0},
)
WANTED = Wanted(cases=10_000_000, gpus=8, tokens_per_second=2500.0, seconds_per_call=4.0)


def test_the_arithmetic() -> None:
    found = project(MEASURED, replace(WANTED, gpu_price=2.0, merge_ms=0.9, disk_gb=200.0))
    assert found.gpu_hours == pytest.approx(10_000_000 * 2500 / 2500 / 3600)
    assert found.hours == pytest.approx(found.gpu_hours / 8)
    assert found.cost == pytest.approx(2 * found.gpu_hours)
    assert found.core_hours == pytest.approx(10_000_000 * 0.02 / 3600)
    assert found.disk_gb == pytest.approx(50.0)
    assert found.merge_hours == pytest.approx(2.5)
    # 8 cases a second of 6 calls, each of them 4 seconds under way.
    assert found.under_way == pytest.approx(8 * 6 * 4)
    assert found.loads == pytest.approx(
        {
            "orchestration processor": 0.16,
            "connections": 192 / 128,
            "disk": 0.5,
            "merge, against the run": 2.5 / found.hours,
        }
    )
    assert found.first == "connections"


def test_what_breaks_first_moves_with_what_there_is() -> None:
    more = replace(WANTED, servers=4, processes=8, cores=1)
    assert project(MEASURED, more).first == "orchestration processor"
    # A second core is of no use to a single process.
    alone = project(MEASURED, WANTED).loads["orchestration processor"]
    assert project(MEASURED, replace(WANTED, cores=2)).loads["orchestration processor"] == alone
    spread = project(MEASURED, replace(WANTED, cores=2, processes=2)).loads
    assert spread["orchestration processor"] == pytest.approx(alone / 2)


def test_a_run_is_measured_by_its_own_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cases(tmp_path / "cases.jsonl", 4)
    recipe = write_recipe(tmp_path)
    ended = evigraph(
        *("run", "tamu", "cases.jsonl", "--recipe", recipe, "--model", "scripted:auto", "--out", "run"),
        folder=tmp_path,
    )
    assert ended.code == 0
    found = measure(RunFolder(tmp_path / "run"))
    (session,) = json.loads((tmp_path / "run" / "run.json").read_text())["sessions"]
    assert (found.cases, found.calls) == (4, session["calls"] / 4)
    assert found.output_tokens == session["output_tokens"] / 4
    assert found.processor_s == pytest.approx(session["processor_seconds"] / 4)
    assert found.bytes["calls.sqlite"] * 4 == (tmp_path / "run" / "calls.sqlite").stat().st_size
    wanted = ("--cases", "1000000", "--gpus", "8", "--tokens-per-second", "2500", "--seconds-per-call", "4")
    main([str(tmp_path / "run"), *wanted])
    kinds = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["measured"] * 2 + ["given"] + ["computed"] * 3 + ["first"]


def test_a_run_without_figures_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cases(tmp_path / "cases.jsonl", 1)
    recipe = write_recipe(tmp_path)
    given = ("run", "tamu", "cases.jsonl", "--recipe", recipe, "--model", "scripted:auto", "--out", "run")
    assert evigraph(*given, folder=tmp_path).code == 0
    run = RunFolder(tmp_path / "run")
    killed = run.manifest.sessions[0].model_copy(update={"processor_seconds": None})
    run.manifest.sessions[:] = [killed]
    with pytest.raises(RunError, match="a session was killed"):
        measure(run)
    wanted = ("--cases", "1", "--gpus", "1", "--tokens-per-second", "1", "--seconds-per-call", "1")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "none"), *wanted])
    assert "error: " in capsys.readouterr().err
