"""`evigraph calibrate`, and runs with what it writes, as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from cases.load import packaged_path
from cli.measuring.calibrate import _print_bound
from evals.calibration import risk
from evals.calibration.calibrate import BoundReport, RiskWish
from runs.record.folder import RunFolder
from tests.evigraph import Ended, edit_manifest, evigraph

BATCH, POOL = str(packaged_path("batch.xml")), str(packaged_path("pool.xml"))
RECIPE = """\
system: tamu
embedding: lexical:256
stop_after: evidence
evidence: {demonstrations: 1, votes: 3, threshold: 2}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scripted run `run` of the twelve samples, and the recipe `calibrated.yaml` that was made of it."""
    folder = tmp_path_factory.mktemp("calibrate")
    (folder / "votes.yaml").write_text(RECIPE)
    assert run(folder, BATCH, "votes.yaml", "run").code == 0
    ended = evigraph(
        *("calibrate", "run", "--ranker", "bm25", "--out", "calibrated.yaml", "--json"), folder=folder
    )
    assert ended.code == 0, ended.err
    (folder / "calibrated.json").write_text(ended.out)
    return folder


def run(folder: Path, cases: str, recipe: str, out: str, *more: str, model: str = "scripted:auto") -> Ended:
    arguments = ("run", "tamu", cases, "--recipe", recipe, "--model", model, "--out", out, *more)
    return evigraph(*arguments, folder=folder)


def recipe_with(folder: Path, name: str, **rule: Any) -> None:
    """The calibrated recipe with a rule that reads the votes and is never sure."""
    values = yaml.safe_load((folder / "calibrated.yaml").read_text())
    values["evidence"] |= {"voters": "both", "ranker": "bm25", "rule": rule}
    (folder / name).write_text(yaml.safe_dump(values))


def test_figures_are_of_cases_that_the_choice_has_not_seen(folder: Path) -> None:
    found = json.loads((folder / "calibrated.json").read_text())
    assert (found["cases"], found["tested_on"], found["split"]) == (12, 12, "one case left out in turn")
    assert set(found["scores"]) == {
        *("as it is", "every sentence", "calibrated", "votes alone", "ranker alone", "votes and ranker")
    }
    assert found["optimism_f1"] == pytest.approx(
        found["in_sample_f1"] - found["scores"]["calibrated"]["f1"]["value"]
    )
    scored = RunFolder(folder / "run")
    assert scored.manifest.counts.done == 12


def test_as_it_is_is_what_the_run_scores(folder: Path) -> None:
    found = json.loads((folder / "calibrated.json").read_text())["scores"]["as it is"]
    ended = evigraph("score", "run", "--task", "2026-2", "--json", folder=folder)
    (task,) = ended.summary["tasks"]
    assert f"{100 * found['f1']['value']:.4f}" in {f"{value:.4f}" for value in numbers(task)}


def numbers(value: object) -> list[float]:
    if isinstance(value, dict):
        return [number for one in value.values() for number in numbers(one)]
    return [float(value)] if isinstance(value, int | float) else []


def test_a_run_on_the_same_cases_is_warned_and_says_so(folder: Path) -> None:
    ended = run(folder, BATCH, "calibrated.yaml", "again")
    (warning,) = [line for line in ended.err.splitlines() if "warning" in line]
    assert "the rule was chosen on 12 of these cases" in warning
    record = RunFolder(folder / "again").manifest.resources["calibration"]
    assert (record["seen_cases"], record["changed"], record["bound"]) == (12, [], "none")


def test_a_run_of_the_rule_labels_as_the_calibration_did(folder: Path) -> None:
    """In sample, by a run: what `calibrate` foresaw of the rule on its own cases."""
    found = json.loads((folder / "calibrated.json").read_text())
    if not (folder / "again").exists():
        run(folder, BATCH, "calibrated.yaml", "again")
    ended = evigraph("score", "again", "--task", "2026-2", "--json", folder=folder)
    (task,) = ended.summary["tasks"]
    assert f"{100 * found['in_sample_f1']:.4f}" in {f"{value:.4f}" for value in numbers(task)}


def test_new_cases_with_the_same_models_are_not_warned(folder: Path) -> None:
    ended = run(folder, POOL, "calibrated.yaml", "new", "--limit", "2")
    assert ended.code == 0
    assert "warning" not in ended.err


@pytest.mark.parametrize("bound", [False, True])
def test_another_model_is_warned_of_and_a_bound_lapses(folder: Path, bound: bool) -> None:
    values = yaml.safe_load((folder / "calibrated.yaml").read_text())
    values["calibration"]["models"] = {"label": "openai:gpt-x "}
    if bound:
        values["calibration"]["bound"] = {
            **{"risk": 0.1, "confidence": 0.9, "loss": "wrong_labels"},
            **{"cases": 40, "answered": 20},
        }
    (folder / "other.yaml").write_text(yaml.safe_dump(values))
    out = f"other-{bound}"
    ended = run(folder, POOL, "other.yaml", out, "--limit", "1")
    (warning,) = [line for line in ended.err.splitlines() if "warning" in line]
    assert "the model of label is scripted:auto" in warning
    assert ("the bound on its risk has lapsed" in warning) is bound
    assert RunFolder(folder / out).manifest.resources["calibration"]["bound"] == (
        "lapsed" if bound else "none"
    )


def test_a_changed_section_is_warned_of(folder: Path) -> None:
    recipe_with(folder, "changed.yaml", ranker_weight=0.5, cutoff={"rule": "top_k", "k": 2})
    ended = run(folder, POOL, "changed.yaml", "changed", "--limit", "1")
    assert "sections evidence and review are not those that were calibrated" in ended.err


def test_cases_that_are_too_uncertain_wait_for_a_person(folder: Path) -> None:
    recipe_with(
        folder,
        "asking.yaml",
        **{"ranker_weight": 0.5, "cutoff": {"rule": "top_k", "k": 2}, "slope": 0.5, "intercept": -1.0},
    )
    values = yaml.safe_load((folder / "asking.yaml").read_text())
    values["review"] = {"confidence": 0.99}
    (folder / "asking.yaml").write_text(yaml.safe_dump(values))
    ended = run(folder, POOL, "asking.yaml", "asking", "--limit", "2")
    assert ended.code == 0
    assert RunFolder(folder / "asking").manifest.counts.waiting == 2
    shown = evigraph("review", "asking", folder=folder)
    assert shown.code == 0


def test_the_table_names_rule_rows_and_what_to_do_next(folder: Path) -> None:
    ended = evigraph("calibrate", "run", folder=folder)
    assert ended.code == 0
    assert "rule  model" in ended.out
    for row in ("as it is", "every sentence", "calibrated"):
        assert row in ended.out
    assert "optimism" in ended.out
    assert "nothing saved: --out FILE writes the recipe" in ended.out


def test_a_rule_that_is_no_better_than_the_one_of_the_run_is_not_written_without_force(folder: Path) -> None:
    """The run has the rule that was chosen on its own cases, so a choice on others cannot beat it."""
    if not (folder / "again").exists():
        run(folder, BATCH, "calibrated.yaml", "again")
    ended = evigraph("calibrate", "again", "--out", "worse.yaml", folder=folder)
    assert ended.code == 1
    assert "The rule is not better than today's." in ended.out
    assert "nothing saved; to save it nevertheless: --force" in ended.out
    assert not (folder / "worse.yaml").exists()
    forced = evigraph("calibrate", "again", "--out", "worse.yaml", "--force", "--json", folder=folder)
    assert forced.code == 0 and (folder / "worse.yaml").exists()
    assert "as it is" in json.loads(forced.out)["no_better_than"]


def refused(folder: Path, *arguments: str) -> str:
    ended = evigraph("calibrate", *arguments, folder=folder)
    assert ended.code == 2
    assert ended.out == ""
    return ended.line


def case(case_id: str, **more: object) -> str:
    sentences = ["The clot was removed.", "He slept well.", "Heparin was given for the clot."]
    return json.dumps({"case_id": case_id, "question": "Why heparin?", "sentences": sentences, **more}) + "\n"


LABELS = {"1": "essential", "2": "not-relevant", "3": "essential"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([case("a"), case("b")], "no case to calibrate on (2 unlabelled); give their labels: --key KEY"),
        ([case("a", labels=LABELS), case("b")], "1 case to calibrate on (1 unlabelled); a rule has to be"),
        ([case("a", labels=LABELS), case("b", labels=LABELS)], "all 2 cases have the same texts"),
    ],
)
def test_too_few_labelled_cases(folder: Path, lines: list[str], said: str) -> None:
    (folder / "few.jsonl").write_text("".join(lines))
    assert said in refused(folder, "few.jsonl", "--ranker", "bm25")


def test_a_key_of_other_cases(folder: Path) -> None:
    key = POOL.replace(".xml", "_key.json")
    assert "wrong key file" in refused(folder, "run", "--key", key)
    assert "wrong key file" in refused(folder, BATCH, "--key", key, "--ranker", "bm25")


def test_a_run_without_votes(folder: Path) -> None:
    ended = evigraph(
        *("run", "direct", BATCH, "--model", "scripted:auto", "--limit", "2", "--out", "direct"),
        folder=folder,
    )
    assert ended.code == 0, ended.err
    assert "a run of 'direct' has no votes that a rule could weigh" in refused(folder, "direct")


def test_a_run_that_was_killed(folder: Path) -> None:
    (folder / "killed").mkdir()
    shutil.copy(folder / "run" / "run.json", folder / "killed")
    edit_manifest(folder / "killed", status="running", counts={})
    lines = (folder / "run" / "cases.jsonl").read_text().splitlines(keepends=True)
    (folder / "killed" / "cases.jsonl").write_text("".join(lines[:5]))
    said = refused(folder, "killed")
    assert "has not finished (running, 5 of 12 cases ended); finish it: evigraph resume killed" in said


def test_cases_that_prompts_showed_to_others(folder: Path) -> None:
    assert run(folder, POOL, "votes.yaml", "shown").code == 0
    ended = evigraph("calibrate", "shown", folder=folder)
    assert ended.code == 0
    assert "warning: 28 of 28 cases are in the pool of demonstrations" in ended.err
    assert "no bound can be shown: 28 of 28 cases" in refused(folder, "shown", "--risk", "0.3")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--risk", "1.5"], "between 0 and 1"),
        (["run", "--curve", "c.svg"], "needs --risk"),
        (["run", BATCH], "is a run: give it alone"),
        (["run", "--recipe", "demo"], "leave --recipe out"),
        ([BATCH, "--recipe", "timeaware"], "has no votes on evidence"),
    ],
)
def test_wrong_usage(folder: Path, arguments: list[str], said: str) -> None:
    ended = evigraph("calibrate", *arguments, folder=folder)
    assert ended.code == 2
    assert said in " ".join(ended.err.replace("│", " ").split())


def test_a_bound_is_printed_with_what_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    shown = risk.Tested(threshold=0.75, answered=40, loss=0.0525, p_value=0.0414)
    _print_bound(BoundReport(RiskWish(0.1, 0.9, "wrong_labels"), shown, (shown,), 60, ()))
    assert " ".join(capsys.readouterr().out.split()) == (
        "bound share of wrong labels of answered cases at most 0.1, with probability 0.9: 40 of 60 tested"
        " cases are answered without a person (confidence from 0.75, mean loss 0.052, p = 0.041); the others"
        " wait for review"
    )


def test_a_bound_on_too_few_cases_says_how_many_it_takes(folder: Path) -> None:
    assert "needs at least 22 labelled cases" in refused(folder, "run", "--risk", "0.1")
    assert "needs at least 45 labelled cases" in refused(folder, "run", "--risk", "0.05")
