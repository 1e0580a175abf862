"""Every benchmark at its smallest: no figure is judged, only its parts."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest

from benchmarks import SUITE
from benchmarks.__main__ import main
from evals.bench.benchmark import load
from tests.evigraph import ROOT


def measured(name: str, *options: str) -> dict[str, Any]:
    """Output of a benchmark in a separate process."""
    command = [sys.executable, "-m", "benchmarks", name, "--tiny", "--json", *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert ended.returncode == 0, ended.stderr
    value: dict[str, Any] = json.loads(ended.stdout)
    return value


def ratio_of_parts(given: dict[str, Any]) -> float:
    return float(given["numerator"]["value"] / given["denominator"]["value"])


def test_batches_come_to_the_results_of_online_requests() -> None:
    given = measured("batches")
    assert given["details"]["requests"] == 12
    assert given["ratio"] == pytest.approx(ratio_of_parts(given), rel=0.01)


def test_a_merge_is_compared_with_a_copy() -> None:
    given = measured("merge", "--repeats", "1")
    assert given["ratio"] == pytest.approx(ratio_of_parts(given), rel=0.1)
    assert (given["details"]["cases"], given["details"]["shards"]) == (24, 8)


def test_evaluation_times_each_command() -> None:
    details = measured("evaluation")["details"]
    assert details["cases"] == 40
    assert {"score_seconds", "compare_seconds", "analyse_seconds", "export_seconds"} < details.keys()


def test_the_service_answers_all_its_streams() -> None:
    given = measured("service")
    assert given["stream_errors"] == 0
    assert given["submit_p99_ms"] > 0
    assert given["details"]["stream_events"] > given["details"]["cases"]
    assert given["ratio"] == pytest.approx(ratio_of_parts(given), rel=0.01)


@pytest.mark.parametrize("name", SUITE.benchmarks)
def test_tiny_values_are_options(name: str) -> None:
    benchmark = load(name, SUITE)
    assert set(benchmark.TINY) <= {field.name for field in fields(benchmark.Options)}


def test_the_readme_has_a_line_for_each_and_so_has_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    lines = (ROOT / "benchmarks" / "README.md").read_text("utf-8").splitlines()
    assert [line.split("`")[1] for line in lines if line.startswith("| `")] == sorted(SUITE.benchmarks)
    assert main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"benchmarks": SUITE.benchmarks}


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["marge"], "no benchmark 'marge'; did you mean 'merge'?"),
        (["merge", "--max-connections", "2"], "python -m benchmarks merge takes no --max-connections"),
        (["corpus", "--tiny", "--data", "none.jsonl"], "none.jsonl"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert fault in error and error.count("\n") == 1
