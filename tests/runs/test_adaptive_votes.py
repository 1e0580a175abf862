"""Runs whose number of votes depends on how they fall: settled early, resumed, overridden, summed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graph.recipe import RecipeError, make_recipe
from runs import RunFolder
from tests.evigraph import Ended, evigraph


def run(folder: Path, recipe: Path, out: str, *more: str, model: str = "scripted:auto") -> Ended:
    return evigraph(
        *("run", "tamu", "cases.jsonl", "--recipe", str(recipe), "--model", model),
        *("--out", out, "--json", "--max-retries", "0", *more),
        folder=folder,
    )


def lines(folder: Path, out: str) -> dict[str, dict[str, Any]]:
    return {line["case_id"]: line for line in RunFolder(folder / out).cases()}


def test_fewer_votes_end_in_the_labels_of_all(tmp_path: Path, recipe: Path, cases: Path) -> None:
    few = run(tmp_path, recipe, "few", "--votes", "3..9", "--threshold", "7")
    all_ = run(tmp_path, recipe, "all", "--votes", "9", "--threshold", "7")
    assert (few.code, all_.code) == (0, 0)
    some, every = lines(tmp_path, "few"), lines(tmp_path, "all")
    assert {id_: line["labels"] for id_, line in some.items()} == {
        id_: line["labels"] for id_, line in every.items()
    }
    asked = [line["asked_votes"] for line in some.values()]
    assert (few.summary["votes_asked"], few.summary["votes_saved"]) == (sum(asked), 54 - sum(asked))
    assert few.summary["votes_saved"] > 0
    assert (all_.summary["votes_asked"], all_.summary["votes_saved"]) == (54, 0)


def test_a_resumed_run_asks_for_no_vote_twice(tmp_path: Path, recipe: Path, cases: Path) -> None:
    (tmp_path / "script.py").write_text(
        "from pathlib import Path\n"
        "from serving.backends.scripted import made_up_reply\n"
        "def reply(call):\n"
        "    if call.case_id == 'k3' and call.role == 'answer' and Path('broken').exists():\n"
        "        raise KeyboardInterrupt\n"
        "    with open('calls.txt', 'a') as file:\n"
        "        file.write(f'{call.role} {call.case_id} {call.sample}\\n')\n"
        "    return made_up_reply(call)\n"
    )
    options = ("--votes", "3..9", "--threshold", "7", "--concurrency", "1")
    model = "scripted:script.py:reply"
    whole = run(tmp_path, recipe, "whole", *options, model=model)
    once = (tmp_path / "calls.txt").read_text().splitlines()
    assert whole.code == 0
    (tmp_path / "calls.txt").unlink()
    (tmp_path / "broken").touch()
    assert run(tmp_path, recipe, "run", *options, model=model).code != 0
    assert set(lines(tmp_path, "run")) == {"k0", "k1", "k2"}
    (tmp_path / "broken").unlink()
    resumed = evigraph("resume", "run", "--json", folder=tmp_path)
    assert (resumed.code, resumed.summary["done"]) == (0, 6)
    assert sorted((tmp_path / "calls.txt").read_text().splitlines()) == sorted(once)
    assert (tmp_path / "run" / "cases.jsonl").read_bytes() == (
        tmp_path / "whole" / "cases.jsonl"
    ).read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--votes", "1"), "with evidence.votes = 1: evidence: threshold 2 is above the number of votes 1"),
        (("--threshold", "4"), "threshold 4 is above the number of votes 3"),
        (("--threshold", "0"), "evidence.threshold: "),
        (("--votes", "9..3"), "the range 9..3 runs backwards; write 3..9"),
        (("--votes", "many"), "'many' is neither a number of votes"),
    ],
)
def test_wrong_votes_are_refused_before_anything_runs(
    tmp_path: Path, recipe: Path, cases: Path, options: tuple[str, ...], words: str
) -> None:
    ended = run(tmp_path, recipe, "run", *options)
    assert (ended.code, (tmp_path / "run").exists()) == (2, False)
    assert words in ended.line


def test_a_graph_that_asks_once_takes_no_range() -> None:
    with pytest.raises(RecipeError, match=r"votes is 3\.\.9, but this graph never asks for further votes"):
        make_recipe({"system": "weak_labels", "evidence": {"votes": "3..9"}}, "r")
