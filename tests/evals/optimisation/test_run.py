"""How an optimisation ends, and what it notes of its cases and candidates."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases.load import find_cases, packaged_path
from evals.errors import OptimisationError
from evals.optimisation.report import RECIPE, verdict, write_report
from evals.optimisation.run import PLAN, Outcome, Wanted, optimise
from evals.optimisation.space import Given
from evals.optimisation.split import CaseFiles
from graph.recipe import load_recipe
from runs.execute.batch import Options
from runs.execute.watcher import SilentWatcher
from serving.protocol.limits import Limits
from serving.protocol.model_name import assign_roles
from tests.evals.optimisation.answering import write_inputs
from tests.prompts.versions import ONE_MESSAGE


class Stopping(SilentWatcher):
    """Stops the search at a line."""

    def __init__(self, at: str) -> None:
        self.at, self.stop = at, asyncio.Event()
        self.lines: list[str] = []

    def notify(self, text: str) -> None:
        self.lines.append(text)
        if self.at and self.at in text:
            self.stop.set()


OTHER_SCRIPTS = '''


def shown(call):
    """Better where demonstrations are shown."""
    return labelled(call, len(call.prompt) > 2)


def searching(call):
    """Fails where the search does not look."""
    searched = Path(__file__).with_name("out").joinpath("cases", "search.jsonl").read_text()
    if f'"{call.case_id}"' not in searched:
        raise TimeoutError("no")
    return shown(call)


def repeating(call):
    return "Look at the note twice and decide."


def wordy(call):
    return "so " * 400 + shown(call)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_inputs(tmp_path, 8)
    with (tmp_path / "script.py").open("a") as script:
        script.write(OTHER_SCRIPTS)
    return tmp_path


async def search(folder: Path, script: str = "alike", at: str = "", **changes: Any) -> Outcome:
    origin = str(folder / "small.yaml")
    loaded = load_recipe(origin)
    values: dict[str, Any] = {
        "given": Given(origin, loaded),
        "files": CaseFiles((folder / "cases.jsonl",)),
        "models": assign_roles([f"scripted:{folder / 'script.py'}:{script}"], loaded.models),
        "budget": 1_000_000,
        "options": Options("run"),
        "trials": 1,
        "variants": 0,
        **changes,
    }
    watcher = Stopping(at)
    return await optimise(Wanted(**values), folder / "out", stop=watcher.stop, watcher=watcher)


@pytest.mark.parametrize(
    ("at", "tried", "said"),
    [
        ("the given recipe", 0, "No candidate has ended."),
        ("candidate 1 of 1", 1, "The search is not finished."),
        ("held-out cases: given", 2, "The search is not finished."),
    ],
)
async def test_a_stopped_search_says_how_far_it_came(folder: Path, at: str, tried: int, said: str) -> None:
    outcome = await search(folder, "shown", at)
    assert (outcome.ended_by, outcome.gain, outcome.is_complete) == ("stop", None, False)
    assert (len([one for one in outcome.trials if one.state == "done"]), verdict(outcome)) == (tried, said)
    assert any("held-out cases are not finished" in note for note in outcome.notes) is (tried == 2)
    write_report(outcome, folder / "out")
    assert (folder / "out" / RECIPE).exists() is (tried > 0)
    if tried == 2:
        assert verdict(replace(outcome, ended_by="budget")).startswith("The held-out cases are not finished")


async def test_a_stop_ends_the_proposals_and_those_that_repeat_one_another_are_noted(folder: Path) -> None:
    outcome = await search(folder, "repeating", "asking for 2 instructions", variants=2)
    assert (outcome.ended_by, outcome.trials, verdict(outcome)) == ("stop", (), "No candidate has ended.")
    assert [*outcome.space.variants] == ["label_evidence"]
    noted = "1 of 2 proposed instructions of label_evidence are usable and unlike one another."
    assert outcome.notes == (noted,)


async def test_the_budget_may_end_the_given_recipe(folder: Path) -> None:
    outcome = await search(folder, "wordy", budget=5_000)
    assert (outcome.ended_by, outcome.best, outcome.is_complete) == ("budget", None, False)
    (note,) = outcome.notes
    assert note.startswith("Stopped: budget of ")


async def test_a_search_ends_with_the_last_candidate_that_there_is(folder: Path) -> None:
    shown = json.dumps([case.id for case in find_cases([packaged_path("pool.xml")])])
    with (folder / "small.yaml").open("a") as recipe:
        recipe.write(f"prompts: {ONE_MESSAGE}\nheld_out: {shown}\n")
    outcome = await search(folder, trials=9)
    assert outcome.ended_by == "space"
    assert [one.choices["reply"] for one in outcome.trials].count("labels") == 2
    assert outcome.is_complete and verdict(outcome).startswith("no gain shown: no candidate did better")


async def test_cases_that_fail_left_out_or_weak_are_noted(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]
    weak = [line | {"label_source": "weak"} for line in lines[:3]]
    bare = {"case_id": "bare", "question": "Why?", "sentences": ["So."]}
    (folder / "cases.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*weak, *lines[3:], bare]))
    once = Options("run", limits=Limits(max_retries=0))
    outcome = await search(folder, "searching", options=once)
    assert outcome.notes[0] == "Left out: 1 case without labels or sentences."
    assert outcome.notes[1].startswith("Of a weak kind, made by a model: labels of 3 cases:")
    assert outcome.notes[2:] == tuple(
        f"4 held-out cases failed with {name}, and count as without labels."
        for name in ("given", "candidate-001")
    )


async def test_a_damaged_plan_is_named(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / PLAN).write_text("{")
    with pytest.raises(OptimisationError, match=r"optimise\.json: cannot be read: .*; give another --out"):
        await search(folder)
