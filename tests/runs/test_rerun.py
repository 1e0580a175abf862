"""Forks of a case: what they inherit, what they ask anew, and what they leave alone."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from graph.recipe import load_recipe
from graph.system import find_system
from prompts import load_prompts
from runs import RunError, RunFolder
from runs.execute.assemble import Request
from runs.execute.batch import Options
from runs.execute.sessions import resume, start
from runs.execute.watcher import SilentWatcher
from runs.fork.forks import forks
from runs.fork.rerun import Rerun, rerun
from runs.record.folder import CALLS
from runs.record.manifest import recorded_cases
from serving.journal.journal import Journal
from serving.protocol.limits import Limits
from serving.protocol.model_name import assign_roles
from tests.evigraph import write_cases, write_recipe

SCRIPT = """\
from pathlib import Path
from serving.backends.scripted import made_up_reply
from serving.protocol.errors import CallError

def first(call):
    if call.case_id == "k1" and call.role == "answer" and len(call.prompt) < 6:
        return "Far too long. " * 50
    if call.case_id == "k2" and (call.role, call.sample) == ("label", 1):
        raise CallError("internal", "the vote is lost")
    if call.case_id == "k2" and (call.role, call.sample) == ("reflect", 2):
        raise CallError("internal", "the reflection is lost")
    if call.case_id == "k3" and call.role == "answer":
        raise CallError("internal", "the answer is lost")
    return made_up_reply(call)

def other(call):
    with Path(__file__).with_name("asked").open("a") as file:
        file.write(f"{call.role} {call.sample}\\n")
    if call.role == "answer":
        return "Another model wrote this. It says something else."
    return made_up_reply(call.model_copy(update={"sample": call.sample + 10}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four cases: k1 has its answer sent back, k2 lacks a vote and a reflection, k3 failed."""
    folder = tmp_path_factory.mktemp("rerun")
    write_cases(folder / "cases.jsonl", 4)
    (folder / "script.py").write_text(SCRIPT)
    recipe = str(write_recipe(folder))
    request = Request(
        recipe=load_recipe(recipe),
        recipe_origin=recipe,
        inputs=(folder / "cases.jsonl",),
        keys=(),
        models=assign_roles([f"scripted:{folder}/script.py:first"], {}),
    )
    asyncio.run(start(request, folder / "run", Options("run", limits=Limits(max_retries=0)), **_session()))
    return folder


@pytest.fixture
def asked(folder: Path) -> Iterator[Path]:
    """What the other model was asked in this test."""
    path = folder / "asked"
    path.write_text("")
    yield path
    path.unlink()


def _session() -> dict[str, Any]:
    return {"stop": asyncio.Event(), "watcher": SilentWatcher()}


async def fork(folder: Path, case_id: str, *models: str, run: str = "run", **wanted: Any) -> RunFolder:
    original = RunFolder(folder / run)
    names = [model.replace("other", f"scripted:{folder}/script.py:other") for model in models]
    chosen = assign_roles(names, original.manifest.model_names) if names else None
    request = Rerun(case_id, models=chosen, **wanted)
    return await rerun(original, request, Limits(max_retries=0), probe=True, **_session())


def _copy(folder: Path, name: str) -> None:
    """The run without its forks."""
    shutil.copytree(folder / "run", folder / name, ignore=shutil.ignore_patterns("forks"))


def line(run: RunFolder, case_id: str) -> dict[str, Any]:
    return run.require_case(case_id)


def steps(run: RunFolder, case_id: str, *, inherited: bool) -> list[str]:
    trace = run.trace(case_id)[:-1]
    assert [step["step"] for step in trace] == list(range(len(trace)))
    return [step["node"] for step in trace if bool(step.get("inherited")) == inherited]


async def test_what_ran_before_the_node_is_inherited_and_only_the_rest_is_asked(
    folder: Path, asked: Path
) -> None:
    forked = await fork(folder, "k0", "other", node="generate_answer")
    assert asked.read_text().split("\n")[:-1] == ["answer 0"]
    assert steps(forked, "k0", inherited=False) == ["generate_answer", "check_answer"]
    before, after = line(RunFolder(folder / "run"), "k0"), line(forked, "k0")
    assert after["answer"] == "Another model wrote this. It says something else."
    assert after | {"answer": "", "usage": {}} == before | {"answer": "", "usage": {}}


async def test_a_node_of_a_fan_out_runs_again_for_all_votes(folder: Path, asked: Path) -> None:
    forked = await fork(folder, "k0", "other", node="reflect_on_labels")
    assert steps(forked, "k0", inherited=False).count("reflect_on_labels") == 3
    assert sorted(asked.read_text().splitlines()) == ["answer 0", "reflect 0", "reflect 1", "reflect 2"]


async def test_a_step_of_a_fan_out_runs_again_alone(folder: Path, asked: Path) -> None:
    trace = RunFolder(folder / "run").trace("k0")
    of_vote_1 = next(one["step"] for one in trace if one.get("facts", {}).get("vote") == 1)
    forked = await fork(folder, "k0", "other", step=of_vote_1)
    assert sorted(asked.read_text().splitlines()) == ["answer 0", "reflect 1"]
    assert steps(forked, "k0", inherited=True).count("reflect_on_labels") == 2
    votes = [one["facts"]["vote"] for one in forked.trace("k0")[:-1] if one["node"] == "reflect_on_labels"]
    assert votes == [0, 2, 1]


async def test_the_second_attempt_of_an_answer_keeps_the_first(folder: Path, asked: Path) -> None:
    trace = RunFolder(folder / "run").trace("k1")
    attempts = [one["step"] for one in trace if one["node"] == "generate_answer"]
    assert len(attempts) == 2
    forked = await fork(folder, "k1", "other", node="generate_answer", step=attempts[1])
    assert steps(forked, "k1", inherited=True).count("generate_answer") == 1
    assert steps(forked, "k1", inherited=False) == ["generate_answer", "check_answer"]


async def test_without_a_change_another_seed_is_asked_and_nothing_replayed(folder: Path) -> None:
    forked = await fork(folder, "k0", node="label_evidence")
    number = int(forked.path.name)
    assert forked.manifest.forked_from is not None
    assert forked.manifest.forked_from.changes == {"seed": (42, 42 + number)}
    (session,) = forked.manifest.sessions
    assert (session.command, session.calls, session.replayed) == ("rerun", 7, 0)


async def test_a_changed_value_keeps_the_seed_and_is_recorded(folder: Path) -> None:
    forked = await fork(folder, "k0", node="aggregate_votes", overrides={"evidence.threshold": 3})
    assert forked.manifest.forked_from is not None
    assert forked.manifest.forked_from.changes == {"evidence.threshold": (2, 3)}
    counts, labels = line(forked, "k0")["vote_counts"], line(forked, "k0")["labels"]
    assert {id_ for id_, label in labels.items() if label == "essential"} == {
        id_ for id_, count in counts.items() if count == 3
    }


async def test_a_vote_that_was_lost_stays_lost(folder: Path) -> None:
    forked = await fork(folder, "k2", node="aggregate_votes")
    assert line(forked, "k2")["usable_votes"] == 2
    assert "failed_reflections" in line(forked, "k2")["flags"]
    assert line(forked, "k2")["flags"] == line(RunFolder(folder / "run"), "k2")["flags"]


async def test_a_reflection_that_was_lost_is_asked_for_beside_another_one(folder: Path, asked: Path) -> None:
    trace = RunFolder(folder / "run").trace("k2")
    of_vote_0 = next(one["step"] for one in trace if one.get("facts", {}).get("vote") == 0)
    forked = await fork(folder, "k2", "other", step=of_vote_0)
    assert sorted(asked.read_text().splitlines()) == ["answer 0", "reflect 0", "reflect 2"]
    assert "failed_reflections" not in line(forked, "k2")["flags"]


async def test_a_fork_that_fails_is_a_failed_case_with_its_labels(folder: Path) -> None:
    forked = await fork(folder, "k3", node="generate_answer")
    assert "the answer is lost" in line(forked, "k3")["error"]["message"]
    assert line(forked, "k3")["labels"] == line(RunFolder(folder / "run"), "k3")["labels"]
    assert forked.manifest.counts.errors == {"internal": 1}


async def test_another_prompt_is_shown_to_the_model(folder: Path) -> None:
    values = load_prompts("default", find_system("tamu").contracts)["generate_answer"].file.model_dump()
    values["opening"] = [{"role": "system", "text": "Mine."}]
    (folder / "mine.yaml").write_text(json.dumps(values))
    files = {"generate_answer": folder / "mine.yaml"}
    forked = await fork(folder, "k0", node="generate_answer", prompt_files=files)
    (call,) = next(s for s in forked.trace("k0") if s["node"] == "generate_answer")["calls"]
    journal = Journal(forked.path / "calls.sqlite", read_only=True)
    assert "Mine." in journal.conversation(call["key"])[0].text
    journal.close()
    assert forked.manifest.forked_from is not None
    assert list(forked.manifest.forked_from.changes) == ["prompt generate_answer"]


async def test_the_original_is_left_as_it_was(folder: Path) -> None:
    _copy(folder, "untouched")
    names = ("run.json", "cases.jsonl", "trace.jsonl.gz", "calls.sqlite")
    before = {name: (folder / "untouched" / name).read_bytes() for name in names}
    await fork(folder, "k0", node="label_evidence", run="untouched")
    assert {name: (folder / "untouched" / name).read_bytes() for name in names} == before


async def test_a_fork_can_be_read_without_its_original(folder: Path) -> None:
    _copy(folder, "gone")
    forked = await fork(folder, "k1", node="check_answer", run="gone")
    forked.path.rename(folder / "moved")
    shutil.rmtree(folder / "gone")
    moved = RunFolder(folder / "moved")
    journal = Journal(moved.path / "calls.sqlite", read_only=True)
    calls = [call for step in moved.trace("k1")[:-1] for call in step["calls"]]
    assert all(journal.conversation(call["key"]) for call in calls)
    journal.close()
    assert [case.id for case in recorded_cases(moved.manifest)] == ["k1"]


def _forget(folder: Path, run: str, role: str) -> None:
    _copy(folder, run)
    calls = [call for step in RunFolder(folder / run).trace("k0") for call in step.get("calls", [])]
    journal = Journal(folder / run / CALLS)
    journal.reject([call["key"] for call in calls if call["role"] == role])
    assert journal.forget_rejected()
    journal.close()


async def test_a_forgotten_call_before_the_node_is_told(folder: Path) -> None:
    _forget(folder, "forgotten", "reflect")
    with pytest.raises(RunError, match=r"case k0: step 3 \(reflect_on_labels\) cannot be replayed"):
        await fork(folder, "k0", node="generate_answer", run="forgotten")
    assert forks(RunFolder(folder / "forgotten")) == []


async def test_a_forgotten_call_after_the_node_is_asked_anew(folder: Path) -> None:
    _forget(folder, "later", "answer")
    forked = await fork(folder, "k0", node="generate_answer", run="later")
    assert line(forked, "k0")["status"] == "done"


async def test_a_fork_is_neither_forked_nor_resumed(folder: Path) -> None:
    forked = await fork(folder, "k0", node="check_answer")
    with pytest.raises(RunError, match="a fork of a fork is not possible; fork the original: evigraph rerun"):
        await fork(folder, "k0", node="check_answer", run=f"run/forks/{forked.path.name}")
    with pytest.raises(RunError, match="is a fork; run the step again"):
        await resume(forked.path, Options("resume"), recipe=None, models=None, **_session())


async def test_changed_case_files_are_refused(folder: Path) -> None:
    text = (folder / "cases.jsonl").read_text()
    try:
        (folder / "cases.jsonl").write_text(text.replace("number 0", "number zero"))
        with pytest.raises(RunError, match="the case files or keys have changed"):
            await fork(folder, "k0", node="check_answer")
    finally:
        (folder / "cases.jsonl").write_text(text)


async def test_a_stop_leaves_an_interrupted_fork(folder: Path) -> None:
    stop = asyncio.Event()
    stop.set()
    request = Rerun("k0", node="label_evidence")
    forked = await rerun(
        RunFolder(folder / "run"), request, Limits(), probe=False, stop=stop, watcher=SilentWatcher()
    )
    assert (forked.manifest.status, forked.case("k0")) == ("interrupted", None)


def test_the_command_tells_what_changed_and_show_lists_the_fork(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _copy(folder, "shown")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    model = f"answer=scripted:{folder}/script.py:other"
    # In this process: another one would load LangGraph and all else again.
    arguments = ["rerun", "shown", "k0", "--from", "generate_answer", "--model", model]
    told = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert told.exit_code == 0
    assert "after    Another model wrote this." in told.stdout
    assert "next     evigraph show shown/forks/1 k0" in told.stdout
    shown = CliRunner().invoke(app, ["show", "shown", "k0"], catch_exceptions=False).stdout
    assert "fork shown/forks/1 from generate_answer, step 9: model of answer: scripted:" in shown
