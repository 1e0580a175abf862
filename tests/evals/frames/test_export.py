from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evals.frames.inspect_log import write_inspect_log
from evals.frames.tables import SCHEMAS, NamedRun, export
from evals.scoring.gold import gold_of_run, predictions
from evals.scoring.score import score
from runs.record.folder import RunFolder, RunWriter
from storage.errors import InputError
from tests.evigraph import evigraph


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("export")
    recipe = folder / "small.yaml"
    recipe.write_text(
        "system: tamu\nembedding: lexical:64\nevidence: {votes: 3, threshold: 2, demonstrations: 1}\n"
    )
    command = f"run tamu {SAMPLES} --limit 3 --recipe {recipe} --model scripted:auto --out {folder / 'run'}"
    ended = evigraph(*command.split(), folder=folder)
    assert ended.code == 0, ended.err
    return RunFolder(folder / "run")


SAMPLES = Path(__file__).parents[3] / "cases" / "samples" / "batch.xml"


@pytest.fixture(scope="module")
def rows(run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, object]]]:
    folder = tmp_path_factory.mktemp("frames")
    export([NamedRun("a", run, gold_of_run(run))], folder)
    return {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in SCHEMAS}


def test_csv_has_the_same_rows_and_no_formula(run: RunFolder, tmp_path: Path) -> None:
    counts = export([NamedRun("=1+1", run, gold_of_run(run))], tmp_path, with_csv=True)
    for name in SCHEMAS:
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            found = list(csv.DictReader(file))
        assert len(found) == counts[name] and [*found[0]] == SCHEMAS[name].names
        assert {row["run"] for row in found} == {"'=1+1"}
    assert not [path for path in tmp_path.iterdir() if path.suffix not in (".csv", ".parquet")]


def test_every_case_has_a_row(run: RunFolder, rows: dict[str, list[dict[str, object]]]) -> None:
    assert sorted(str(row["case_id"]) for row in rows["cases"]) == sorted(run.statuses())


def test_every_sentence_has_a_row_with_its_votes_and_its_gold_label(
    run: RunFolder, rows: dict[str, list[dict[str, object]]]
) -> None:
    line = run.require_case("101")
    of_case = [row for row in rows["sentences"] if row["case_id"] == "101"]
    assert {row["sentence_id"]: row["essential_votes"] for row in of_case} == line["vote_counts"]
    assert {row["sentence_id"]: row["label"] for row in of_case} == line["labels"]
    assert {row["gold_label"] for row in of_case} >= {"essential", "not-relevant"}


def test_votes_add_up_to_the_counts(run: RunFolder, rows: dict[str, list[dict[str, object]]]) -> None:
    counts = run.require_case("102")["vote_counts"]
    found = dict.fromkeys(counts, 0)
    for row in rows["votes"]:
        if row["case_id"] == "102" and row["essential_after"]:
            found[row["sentence_id"]] += 1
    assert found == counts


def test_the_vote_of_a_ranker_is_told_from_those_of_the_model(run: RunFolder, tmp_path: Path) -> None:
    ranked = {"vote": 3, "essential": ["2"]}
    with RunWriter.create(tmp_path / "ranked", run.manifest) as writer:
        passes = dict(run.passes())
        for line in run.cases():
            added = {"ranker_vote": ranked} if line["case_id"] == "101" else {}
            writer.append(line | added, passes[line["case_id"]])
    export([NamedRun("a", RunFolder(tmp_path / "ranked"), {})], tmp_path / "frames")
    rows = pq.read_table(tmp_path / "frames" / "votes.parquet").to_pylist()
    mine = [row for row in rows if row["voter"] == "ranker"]
    assert [row["sentence_id"] for row in mine if row["essential_after"]] == ["2"]
    assert {row["vote"] for row in mine} == {3}
    assert {row["vote"] for row in rows if row["voter"] == "llm"} == {0, 1, 2}


def test_calls_are_those_of_the_lines(run: RunFolder, rows: dict[str, list[dict[str, object]]]) -> None:
    assert len(rows["calls"]) == sum(line["usage"]["calls"] for line in run.cases())
    assert {row["role"] for row in rows["calls"]} == {"classify", "label", "reflect", "answer"}


def test_no_text_of_a_case_is_exported(run: RunFolder, rows: dict[str, list[dict[str, object]]]) -> None:
    answer = run.require_case("101")["answer"]
    assert answer
    assert answer not in str(rows)


def test_a_case_that_ran_again_is_there_once_with_its_last_pass(run: RunFolder, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(run.path, again)
    lines = {line["case_id"]: line for line in run.cases()}
    with RunWriter(again) as writer:
        for case_id, trace in run.passes():
            writer.append(lines[case_id], [{**step, "seconds": step["seconds"] + 1} for step in trace])
    twice = export([NamedRun("a", RunFolder(again), {})], tmp_path / "frames")
    once = export([NamedRun("a", run, {})], tmp_path / "frames-of-once")
    assert twice == once
    rows = pq.read_table(tmp_path / "frames" / "cases.parquet").to_pylist()
    assert all(row["seconds"] >= 1 for row in rows)


def test_a_failed_write_leaves_nothing_behind(run: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        export([NamedRun("a", run, {})], file / "frames")


def test_many_rows_are_written_in_groups(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evals.frames.tables._ROWS", 7)
    written = export([NamedRun("a", run, {})], tmp_path)
    file = pq.ParquetFile(tmp_path / "votes.parquet")
    assert file.metadata.num_row_groups > 1
    assert file.metadata.num_rows == written["votes"]


def test_an_inspect_log_has_its_header_before_its_samples(run: RunFolder, tmp_path: Path) -> None:
    path = write_inspect_log(NamedRun("a", run, gold_of_run(run)), tmp_path)
    log = json.loads(path.read_text("utf-8"))
    # Inspect reads headers without the samples, and stops at them.
    assert list(log)[-1] == "samples"
    assert {"version", "status", "eval", "plan", "results", "stats"} <= log.keys()
    assert [sample["id"] for sample in log["samples"]] == list(run.statuses())
    # `inspect view` knows logs by a time at the front of their names.
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\+00-00_tamu_", path.name)


def test_an_inspect_log_tells_the_class_of_an_error_and_not_its_words(run: RunFolder, tmp_path: Path) -> None:
    failed = shutil.copytree(run.path, tmp_path / "failed")
    error = {"class": "invalid_output", "message": "the reply was 'quagga'"}
    with RunWriter(failed) as writer:
        writer.append({**run.require_case("101"), "status": "failed", "error": error}, [])
    text = write_inspect_log(NamedRun("a", RunFolder(failed), {}), tmp_path).read_text("utf-8")
    assert "invalid_output" in text
    assert "quagga" not in text


def test_the_scores_of_an_inspect_log_are_those_of_the_key(run: RunFolder, tmp_path: Path) -> None:
    gold = gold_of_run(run)
    log = json.loads(write_inspect_log(NamedRun("a", run, gold), tmp_path).read_text("utf-8"))
    scores = {sample["id"]: sample["scores"]["strict_f1"]["value"] for sample in log["samples"]}
    wanted = score("2026-2", predictions(run), gold)
    of_case = wanted.matrix[:, wanted.columns.index("strict f1")] / 100
    assert scores == pytest.approx(dict(zip(wanted.case_ids, of_case, strict=True)))
    micro_f1 = log["results"]["scores"][0]["metrics"]["micro_f1"]["value"]
    assert 100 * micro_f1 == pytest.approx(wanted.values["strict_micro_f1"])
