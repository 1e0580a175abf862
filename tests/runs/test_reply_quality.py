"""Replies that could not be used: counted, shown, and a reason to stop where they are all there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runs.execute.reply_quality import FirstCases, degraded_steps, reply_fields
from runs.record.folder import RunFolder
from tests.evigraph import Ended, evigraph, write_cases, write_recipe
from tests.serving.fake_server import FakeServer, Obey, Refuse, Say

SCRIPT = """\
from pathlib import Path
from serving.backends.scripted import made_up_reply
HERE = Path(__file__).parent
def corrected(call):
    return 'cannot be used' in call.prompt[-1][1]

def reply(call):
    if (HERE / 'useless').exists() and call.role == 'classify':
        return 'I cannot help with that.'
    if call.role == 'label' and call.case_id == 'k0' and call.sample == 0 and not corrected(call):
        return 'Certainly! The sentences matter.'
    if call.role == 'label' and call.case_id == 'k1' and call.sample == 1:
        return '{"1": "essential"}'
    return made_up_reply(call)
"""


def call(fault: str | None, *prompt: str, incomplete: bool = False) -> dict[str, Any]:
    return {"fault": fault, "prompt": prompt} | ({"incomplete": True} if incomplete else {})


def test_a_step_is_degraded_if_none_of_its_replies_is_usable() -> None:
    bad, good, part = call("no", "a"), call(None, "a"), call("no", "a", incomplete=True)
    trace: list[dict[str, Any]] = [
        {"node": "classify", "calls": [bad, bad]},
        {"node": "label", "calls": [bad, good]},
        {"node": "reflect", "calls": [bad]},
        {"node": "reflect", "calls": [part]},
        {"node": "aggregate", "calls": []},
    ]
    assert degraded_steps(trace) == ["classify"]


def test_a_correction_is_told_from_another_sample() -> None:
    calls = [call("no", "a", "b"), call(None, "a", "b", "c", "d"), call("no", "a", "b"), call(None, "a", "b")]
    assert reply_fields(calls) == {"corrected": 1}
    assert reply_fields([call("no", "a", incomplete=True)]) == {"incomplete": 1}


@pytest.mark.parametrize(
    ("cases", "in_rounds", "degraded", "stops_after"),
    [
        (9, False, "yyyyyyy", 5),
        (3, False, "yyy", 3),
        (9, False, "yyyyny", None),
        (9, True, "y", 1),
        (9, True, "ny", None),
    ],
)
def test_the_first_five_cases_decide(
    cases: int, in_rounds: bool, degraded: str, stops_after: int | None
) -> None:
    first = FirstCases(cases, in_rounds)
    faults = []
    for one in degraded:
        first.add(["label_evidence"] if one == "y" else [])
        faults.append(first.fault())
    found = next((number for number, fault in enumerate(faults, start=1) if fault), None)
    assert found == stops_after


def test_a_round_with_a_usable_reply_goes_on_though_no_case_of_it_has_ended() -> None:
    first = FirstCases(9, in_rounds=True)
    first.add([], ended=False)
    first.add(["label_evidence"], ended=False)
    assert first.fault() is None
    first.begin_round()
    first.add(["label_evidence"], ended=False)
    assert str(first.fault()).endswith("(1 of 1): no usable reply to label_evidence in 1")


def run(folder: Path, *more: str, model: str = "scripted:script.py:reply") -> Ended:
    command = ("run", "tamu", "cases.jsonl", "--recipe", "lexical.yaml", "--model", model, "--out", "run")
    return evigraph(*command, "--concurrency", "1", *more, folder=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_cases(tmp_path / "cases.jsonl", 8)
    write_recipe(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def test_corrected_and_incomplete_replies_are_counted_and_stop_nothing(folder: Path) -> None:
    summary = run(folder, "--json").summary
    assert (summary["done"], summary["corrected_replies"], summary["incomplete_replies"]) == (8, 1, 1)
    assert summary["degraded"] == {"cases": 0, "steps": {}}
    assert summary["flags"]["incomplete_replies"] == 1
    status = evigraph("status", "run", folder=folder)
    assert "replies: 1 corrected, 1 incomplete\n" in status.out
    assert evigraph("status", "run", "--json", folder=folder).summary["corrected_replies"] == 1
    (listed,) = evigraph("runs", "--root", ".", "--json", folder=folder).summary["runs"]
    assert (listed["corrected_replies"], listed["incomplete_replies"]) == (1, 1)
    assert listed["flags"] == summary["flags"]
    assert "replies: 1 corrected, 1 incomplete;" in evigraph("runs", "--root", ".", folder=folder).out


def test_a_run_stops_after_five_degraded_cases_and_goes_on(folder: Path) -> None:
    (folder / "useless").touch()
    stopped = run(folder)
    assert stopped.code == 1
    (line,) = [one for one in stopped.err.splitlines() if one.startswith("stopped:")]
    assert line == (
        "stopped: every case so far is degraded (5 of 5): no usable reply to classify_intent in 5; check"
        " the model: evigraph models check STRING; or go on: evigraph resume run --keep-going"
    )
    assert "5 done, 0 failed, 3 not run" in " ".join(stopped.out.split())
    assert "degraded 5 cases with a step that got no usable reply (5 classify_intent)" in " ".join(
        stopped.out.split()
    )
    kept = (folder / "run" / "cases.jsonl").read_bytes()

    # Three are left, and all of them are degraded as well.
    resumed = evigraph("resume", "run", "--json", folder=folder)
    assert (resumed.code, resumed.summary["status"], resumed.summary["done"]) == (1, "finished", 8)
    assert "every case so far is degraded (3 of 3)" in resumed.err
    assert (folder / "run" / "cases.jsonl").read_bytes().startswith(kept)

    (folder / "useless").unlink()
    better = evigraph("retry", "run", "--impaired", "--json", folder=folder)
    assert (better.code, better.summary["cases_run"], better.summary["degraded"]["cases"]) == (0, 8, 0)


def test_keep_going_runs_all_cases(folder: Path) -> None:
    (folder / "useless").touch()
    ended = run(folder, "--keep-going", "--json")
    assert (ended.code, ended.summary["done"], ended.summary["degraded"]["cases"]) == (0, 8, 8)
    assert [line["degraded"] for line in RunFolder(folder / "run").cases()] == [["classify_intent"]] * 8


def test_retries_are_counted_by_kind(folder: Path) -> None:
    server = FakeServer(default=Obey())
    server.start()
    try:
        busy = Refuse(429, retry_after="0")
        server.plan(busy, busy, Say(), Refuse(503, retry_after="0"))
        ended = run(folder, "--json", "--limit", "2", model=f"vllm:tiny@{server.url}")
    finally:
        server.stop()
    assert ended.summary["retries"] == {"connection": 1, "rate_limit": 2}
    recorded = json.loads((folder / "run" / "run.json").read_text())["sessions"][0]
    assert recorded["retries"] == {"connection": 1, "rate_limit": 2}
    assert "retries: 1 connection, 2 rate_limit\n" in evigraph("status", "run", folder=folder).out
