"""Runs whose calls go to another machine as files come to what the same runs come to online."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runs.away import away_batches
from runs.check import check
from runs.folder import RunFolder
from runs.manifest import BudgetCaps, RunError
from serving import gate
from serving.batches.providers.files import RunBatchFiles
from serving.budget import Price
from serving.errors import ModelError
from tests.runs.batched.account import Account
from tests.runs.batched.elsewhere import MODEL, Elsewhere, Line

CALLS = (16, 12, 4)
"""Of 4 cases: intent and votes; reflections; the answer."""


@pytest.fixture
def runs(tmp_path: Path) -> Elsewhere:
    gate.choose(None, allow_hosted=True)
    return Elsewhere(tmp_path, Account())


def test_a_run_by_files_ends_as_one_online(runs: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Line] = []
    row = RunBatchFiles.row

    def kept(*arguments: Any) -> Any:
        made = row(*arguments)
        asked.append({"custom_id": made.custom_id, "body": made.body})
        return made

    online = runs.start(model="scripted:auto", out="online")
    for calls in CALLS:
        monkeypatch.setattr(RunBatchFiles, "row", kept)
        run = runs.start(model=MODEL) if calls == CALLS[0] else runs.resume()
        monkeypatch.setattr(RunBatchFiles, "row", row)
        assert run.manifest.status == "interrupted"
        away = away_batches(run.path)
        assert (away.calls, away.only_files) == (calls, True)
        requests = runs.export()
        # Written from the journal, a request is the one that the run meant, to the order of its fields.
        wanted = {one["custom_id"]: json.dumps(one["body"]) for one in asked}
        assert {one["custom_id"]: json.dumps(one["body"]) for one in requests} == wanted
        assert runs.read(runs.answers(requests)).rows == {"answered": len(requests)}
        asked.clear()
    run = runs.resume()
    assert run.manifest.status == "finished" and runs.results() == runs.results("online")
    assert sum(one.calls for one in run.manifest.sessions) == online.manifest.sessions[0].calls == sum(CALLS)
    assert [one.command for one in run.manifest.sessions] == [
        *("run", "import", "resume", "import", "resume", "import", "resume")
    ]
    assert check(run).faults == []
    with pytest.raises(RunError, match="no call waits for a file"):
        runs.export()


def test_requests_with_the_same_beginning_stand_together(runs: Elsewhere) -> None:
    runs.start(model=MODEL)
    firsts = [one["body"]["messages"][0]["content"] for one in runs.export()]
    assert len(set(firsts)) == 1 + sum(one != other for one, other in pairwise(firsts))
    assert len(set(firsts)) > 1


def test_an_import_can_be_repeated(runs: Elsewhere) -> None:
    runs.start(model=MODEL)
    requests = runs.export()
    lines = runs.answers(requests)
    first = runs.read(lines[:3])
    left = sum(one["body"].get("n", 1) for one in requests[3:])
    assert (first.rows, first.known, first.left) == ({"answered": 3}, 0, left)
    again = runs.read(lines)
    assert (again.rows, again.known, again.left) == ({"answered": len(lines) - 3}, 3, 0)
    before = (runs.folder / "run" / "run.json").read_bytes()
    none = runs.read(lines)
    assert (none.rows, none.known, none.left) == ({}, len(lines), 0)
    assert (runs.folder / "run" / "run.json").read_bytes() == before
    assert away_batches(runs.folder / "run").ended == 1


def test_what_has_no_result_waits_and_is_exported_again(runs: Elsewhere) -> None:
    runs.start(model=MODEL, out="whole")
    runs.start(model="scripted:auto", out="online")
    runs.start(model=MODEL)
    requests = runs.export()
    made = runs.read(runs.answers(requests)[2:])
    left = {one["custom_id"] for one in requests[:2]}
    assert made.left and {one["custom_id"] for one in runs.export()} == left
    # Cases that have all they need go on meanwhile.
    assert runs.resume().manifest.status == "interrupted"
    assert {one["custom_id"] for one in runs.export()} > left
    while away_batches(runs.folder / "run").calls:
        runs.round()
        runs.resume()
    assert runs.results() == runs.results("online")


def test_what_is_given_up_fails_and_a_retry_exports_it(runs: Elsewhere) -> None:
    runs.start(model="scripted:auto", out="online")
    runs.start(model=MODEL)
    lines = runs.answers(runs.export())
    made = runs.read(lines[1:], final=True)
    assert made.left == 0 and made.rows["missing"] >= 1
    runs.resume()
    while away_batches(runs.folder / "run").calls:
        runs.round()
        runs.resume()
    failed = RunFolder(runs.folder / "run").manifest.counts
    assert failed.failed == 1 and failed.errors == {"internal": 1}
    runs.retry()
    assert [one["custom_id"] for one in runs.export()] == [lines[0]["custom_id"]]
    while away_batches(runs.folder / "run").calls:
        assert runs.round().command == "retry"
        runs.retry()
    assert runs.results() == runs.results("online")


def test_rows_with_errors_doubled_differing_foreign_and_out_of_order(runs: Elsewhere) -> None:
    runs.start(model="scripted:auto", out="online")
    runs.start(model=MODEL)

    def spoil(lines: list[Line]) -> list[Line]:
        failed = {
            **lines[0],
            "response": {"status_code": 400, "body": None},
            "error": "maximum context length",
        }
        other = json.loads(json.dumps(lines[2]))
        other["response"]["body"]["choices"][0]["message"]["content"] = "other"
        return [{**lines[1], "custom_id": "nobody"}, failed, *reversed(lines[1:]), lines[1], other]

    requests = len(runs.export())
    made = runs.round(spoil)
    answered = made.rows.pop("answered")
    assert made.rows == {"foreign": 1, "failed": 1, "doubled": 1, "differing": 1}
    assert (answered, made.left, made.faults) == (requests - 1, 0, [])
    while away_batches(runs.folder / "run").calls or runs.resume().manifest.status != "finished":
        runs.round()
    assert RunFolder(runs.folder / "run").manifest.counts.errors == {"context_length": 1}
    runs.retry()
    while away_batches(runs.folder / "run").calls:
        assert runs.round().command == "retry"
        runs.retry()
    assert runs.results() == runs.results("online")


def test_a_torn_file_gives_what_it_has(runs: Elsewhere) -> None:
    runs.start(model=MODEL)
    requests = runs.export()
    made = runs.read(runs.answers(requests), cut=30)
    assert made.rows == {"answered": len(requests) - 1}
    assert made.left and "results.jsonl is no JSON object" in made.faults[0]
    assert [one["custom_id"] for one in runs.export()] == [requests[-1]["custom_id"]]


def test_files_of_another_kind_are_refused_and_change_nothing(runs: Elsewhere) -> None:
    runs.start(model=MODEL)
    before = (runs.folder / "run" / "run.json").read_bytes()
    requests = runs.export()
    with pytest.raises(ModelError, match="holds requests"):
        runs.read(requests)
    with pytest.raises(RunError, match="holds no results"):
        runs.read([])
    others = [{**one, "custom_id": f"{n:064x}"} for n, one in enumerate(runs.answers(requests))]
    with pytest.raises(RunError, match=f"none of its {len(others)} results is of "):
        runs.read(others)
    assert (runs.folder / "run" / "run.json").read_bytes() == before
    assert away_batches(runs.folder / "run").rows == {}
    assert len(runs.export()) == len(requests)


def test_answers_of_another_model_fail(runs: Elsewhere) -> None:
    runs.start(model=MODEL)
    lines = runs.answers(runs.export())
    lines[0]["response"]["body"]["model"] = "org/other"
    assert runs.read(lines).rows["failed"] == 1


def test_several_models_take_a_file_each(runs: Elsewhere) -> None:
    runs.start(model=MODEL)
    with pytest.raises(RunError, match="no call of 'batch:vllm:other' waits"):
        runs.export(model="batch:vllm:other")
    runs.start(models=[MODEL, "classify=batch:vllm:other"], out="two")
    with pytest.raises(RunError, match="wait for files; choose one by --model"):
        runs.export("two")
    for model, name in ((MODEL, "tiny"), ("batch:vllm:other", "other")):
        requests = runs.export("two", model)
        assert {one["body"]["model"] for one in requests} == {name}
        made = runs.read(runs.answers(requests, "two", model), "two", model=model)
        assert made.rows == {"answered": len(requests)}
    assert away_batches(runs.folder / "two").calls == 0


def test_an_intent_of_a_killed_session_waits_for_its_file(
    runs: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> None:
        raise KeyboardInterrupt

    submit = RunBatchFiles.submit
    monkeypatch.setattr(RunBatchFiles, "submit", die)
    with pytest.raises(KeyboardInterrupt):
        runs.start(model=MODEL)
    monkeypatch.setattr(RunBatchFiles, "submit", submit)
    assert [one.state for one in away_batches(runs.folder / "run").batches] == ["intended"]
    assert runs.resume().manifest.status == "interrupted"
    away = away_batches(runs.folder / "run")
    assert (away.calls, [one.state for one in away.batches]) == (16, ["running"])


def test_imported_calls_cost_what_they_cost_online(runs: Elsewhere) -> None:
    prices = {"vllm:tiny": Price(input=1_000_000, output=1_000_000)}
    runs.start(model=MODEL, budget=BudgetCaps(prices=prices))
    runs.round()
    manifest = RunFolder(runs.folder / "run").manifest
    assert manifest.sessions[-1].calls == 16
    assert manifest.total_cost == manifest.total_tokens > 0
