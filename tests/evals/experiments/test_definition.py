from __future__ import annotations

from pathlib import Path

import pytest

from evals import experiments
from evals.errors import ExperimentError
from evals.experiments.definition import BASELINES, load_experiment
from evals.experiments.rankers import plan_rankers
from evals.experiments.run import plan
from graph.recipe import RecipeError
from tests.evals.experiments.claims import write_examples

PACKAGED = sorted(path.stem for path in Path(experiments.__path__[0], "packaged").glob("*.yaml"))


def written(folder: Path, text: str) -> str:
    for name in ("a.jsonl", "b.jsonl"):
        (folder / name).write_text('{"case_id": "1", "question": "Why?", "sentences": ["So."]}\n')
    path = folder / "grid.yaml"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_experiments_can_be_planned(name: str, tmp_path: Path) -> None:
    experiment = load_experiment(name)
    planned = plan(experiment, tmp_path, ["scripted:auto"], None)
    runs = [name for name, cell in experiment.cells.items() if cell.ranker is None]
    assert [cell.name for cell in planned] == runs
    assert all(path.is_file() for path in experiment.cases)


@pytest.mark.parametrize("name", ["fusion", "objectives"])
def test_packaged_rankers_can_be_planned(name: str, tmp_path: Path) -> None:
    examples = [write_examples(tmp_path / f"{one}.jsonl", 40, one) for one in ("a", "b")]
    experiment = load_experiment(name)
    assert experiment.about
    data = {"data": (examples[0],), "pretrain": (examples[1],)}
    rankers = experiment.rankers.model_copy(update=data)
    made = plan_rankers(experiment.model_copy(update={"rankers": rankers}), tmp_path, None)
    assert made is not None
    trained = [cell for cell in experiment.cells.values() if cell.ranker not in BASELINES]
    assert len(made.rankers) == 3 * len(trained) + 2
    assert {row for rows in experiment.tables.values() for row in rows} == set(experiment.cells)


def test_a_grid_is_every_combination(tmp_path: Path) -> None:
    text = "grid: {evidence.votes: [3, 5], answer.selection: [tiered, similarity]}"
    names = list(load_experiment(written(tmp_path, text)).all_cells())
    assert names == [
        "votes=3,selection=tiered",
        "votes=3,selection=similarity",
        "votes=5,selection=tiered",
        "votes=5,selection=similarity",
    ]


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    experiment = load_experiment(written(tmp_path, "cases: dev.xml\ntune_on: [more.xml]\ncells: {a: {}}"))
    assert experiment.cases == (tmp_path / "dev.xml",)
    assert experiment.tune_on == (tmp_path / "more.xml",)


def test_examples_and_training_recipes_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("{}", "utf-8")
    text = "rankers: {data: [a.jsonl]}\ncells: {own: {ranker: mine.yaml}, packaged: {ranker: mid}}"
    experiment = load_experiment(written(tmp_path, text))
    assert experiment.rankers.data == (tmp_path / "a.jsonl",)
    assert [cell.ranker for cell in experiment.cells.values()] == [str(tmp_path / "mine.yaml"), "mid"]


def test_voting_cells_run_on_the_tuning_cases_too(tmp_path: Path) -> None:
    text = (
        "cases: a.jsonl\ntune_on: b.jsonl\n"
        "cells: {one: {set: {evidence.votes: 1, evidence.threshold: 1}}, five: {}}"
    )
    planned = plan(load_experiment(written(tmp_path, text)), tmp_path, ["scripted:auto"], None)
    assert [(cell.name, cell.tuning) for cell in planned] == [("one", False), ("five", False), ("five", True)]
    assert planned[-1].request.inputs == (tmp_path / "b.jsonl",)


def test_a_cell_may_name_its_model(tmp_path: Path) -> None:
    text = "cases: a.jsonl\ncells: {own: {model: 'openai:gpt'}, other: {}}"
    own, other = plan(load_experiment(written(tmp_path, text)), tmp_path, ["scripted:auto"], None)
    assert str(own.request.models["label"]) == "openai:gpt"
    assert str(other.request.models["label"]) == "scripted:auto"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("cells: {a: {}}\ntables: {3: [b]}", "table 3 names cell 'b', which is not there"),
        ("cells: {few-shot: {}}\ntables: {3: [fewshot]}", "did you mean 'few-shot'"),
        ("cells: {a: {}}\ntables: {5: [a]}", "tables.5"),
        ("cells: {../up: {}}", "cells.../up"),
        ("cells: {a: {sets: {}}}", "cells.a.sets"),
        ("recipe: tamu", "it has neither cells nor a grid"),
        ("- a", "it must be a mapping"),
        ("cells: {a: {}", "grid.yaml"),
        ("cells: {a: {}}\ntables: {1: [a]}", "table 1 names cell 'a', which is a run"),
        ("cells: {a: {ranker: mid}}\ntables: {3: [a]}", "table 3 names cell 'a', which is a ranker"),
        ("cells: {a: {ranker: mid, model: 'x:y'}}", "a ranker takes neither a recipe of runs nor a model"),
        ("cells: {a: {ranker: bm25, set: {epochs: 1}}}", "bm25 has no values to set"),
        ("cells: {a: {ranker: mid}}\nrankers: {seeds: [0]}", "rankers.seeds"),
    ],
)
def test_faults_are_named(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=fault):
        load_experiment(written(tmp_path, text))


def test_a_missing_file_names_the_packaged_ones(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="packaged experiments: ablations, demo"):
        load_experiment(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    ("field", "fault"),
    [("evidence.vote", "vote"), ("evidenze.votes", "evidenze"), ("system.votes", "not a section")],
)
def test_unknown_fields_of_the_recipe_are_refused_before_anything_runs(
    field: str, fault: str, tmp_path: Path
) -> None:
    text = f"cases: a.jsonl\ncells: {{a: {{set: {{{field}: 3}}}}}}"
    with pytest.raises(RecipeError, match=fault):
        plan(load_experiment(written(tmp_path, text)), tmp_path, ["scripted:auto"], None)


def test_cells_may_have_recipes_of_their_own_systems(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("system: tamu\nevidence: {votes: 1, threshold: 1}\n")
    text = "cases: a.jsonl\nrecipe: demo\ncells: {one: {recipe: direct}, own: {recipe: mine.yaml}, rest: {}}"
    planned = plan(load_experiment(written(tmp_path, text)), tmp_path, ["scripted:auto"], None)
    assert [cell.request.recipe.system for cell in planned] == ["direct", "tamu", "tamu"]
    assert [cell.request.recipe_origin for cell in planned] == ["direct", str(tmp_path / "mine.yaml"), "demo"]


def test_values_that_a_cells_recipe_does_not_have_are_refused_in_one_line(tmp_path: Path) -> None:
    text = "cases: a.jsonl\ncells: {one: {recipe: direct, set: {evidence.votes: 3}}}"
    with pytest.raises(
        RecipeError, match=r"^cell 'one': recipe direct with evidence.votes = 3: unknown field"
    ):
        plan(load_experiment(written(tmp_path, text)), tmp_path, ["scripted:auto"], None)


def test_a_pool_is_given_to_the_cells_that_show_demonstrations(tmp_path: Path) -> None:
    text = "cases: a.jsonl\nrecipe: demo\ndemos: pool\ncells: {one: {recipe: direct}, other: {}}"
    one, other = plan(load_experiment(written(tmp_path, text)), tmp_path, ["scripted:auto"], None)
    assert one.request.places == {}
    assert other.request.places == {"demos": tmp_path / "pool"}


def test_a_pool_that_no_cell_shows_is_refused(tmp_path: Path) -> None:
    text = "cases: a.jsonl\ndemos: pool\ncells: {one: {recipe: direct}}"
    with pytest.raises(ExperimentError, match=r"no cell of the experiment has a use for demos .*pool"):
        plan(load_experiment(written(tmp_path, text)), tmp_path, ["scripted:auto"], None)


def test_an_experiment_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="--cases FILE"):
        plan(load_experiment(written(tmp_path, "cells: {a: {}}")), tmp_path, ["scripted:auto"], None)
