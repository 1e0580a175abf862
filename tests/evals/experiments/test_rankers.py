from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.errors import ExperimentError
from evals.experiments.definition import Experiment
from evals.experiments.rankers import HELD_OUT, NOISY, TUNING, RankerPlan, plan_rankers, train_rankers
from evals.experiments.run import PLAN, Cells, keep_plan, plan, run_cells
from ranking.examples import split
from runs.execute.batch import Options
from runs.execute.watcher import Progress
from tests.evals.experiments.claims import write_examples
from tests.evals.experiments.tiny_encoder import save_tiny_encoder
from tests.evigraph import write_cases
from tests.ranking.readers.files import write_lines
from tests.ranking.readers.test_evidence_inference import SENTENCES, TEXT, prompt, span


class Quiet:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def notify(self, text: str) -> None:
        self.lines.append(text)

    def update(self, progress: Progress) -> None: ...


def experiment(folder: Path, cells: dict[str, Any], table: str = "abridge-2", **fields: Any) -> Experiment:
    data, others = folder / "a.jsonl", folder / "b.jsonl"
    if not data.exists():
        write_examples(data, 40, "a")
        write_examples(others, 20, "b")
    values = {
        "rankers": {"data": [data], "pretrain": [others], **fields},
        "cells": cells,
        "tables": {table: list(cells)},
    }
    return Experiment.model_validate(values)


def planned(
    folder: Path, cells: dict[str, Any] | None = None, table: str = "abridge-2", **fields: Any
) -> RankerPlan:
    of = experiment(folder, cells or {"x": {"ranker": "pointwise"}}, table, **fields)
    made = plan_rankers(of, folder / "out", None)
    assert made is not None
    return made


def test_parts_have_no_group_in_common(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    parts = [{one.group for one in part} for part in (plan.train, plan.sets[TUNING], plan.sets[HELD_OUT])]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 40
    assert len(parts[2]) == 8


@pytest.mark.parametrize("limit", [None, 5])
def test_a_training_holds_out_the_tuning_part(tmp_path: Path, limit: int | None) -> None:
    plan = planned(tmp_path, limit=limit)
    recipe = plan.rankers[0].recipe
    assert recipe is not None
    tuning = plan.sets[TUNING]
    parted = split([*plan.train, *tuning], recipe.split.held_out, recipe.split.seed)
    assert {one.id for one in parted.held_out} == {one.id for one in tuning}
    assert len(parted.train) == (limit or 26)


def test_a_ranker_is_trained_once_per_seed_and_a_baseline_once(tmp_path: Path) -> None:
    cells = {"x": {"ranker": "pointwise"}, "bm25": {"ranker": "bm25"}}
    plan = planned(tmp_path, cells, seeds=[1, 2])
    assert [one.title for one in plan.rankers] == ["bm25", "x, seed 1", "x, seed 2"]
    assert [one.recipe.seed for one in plan.rankers if one.recipe] == [1, 2]


def test_noise_is_in_the_queries_of_the_noisy_set_alone(tmp_path: Path) -> None:
    sets = planned(tmp_path, table="abridge-5").sets
    assert [one.sentences for one in sets[NOISY]] == [one.sentences for one in sets[HELD_OUT]]
    assert [one.query for one in sets[NOISY]] != [one.query for one in sets[HELD_OUT]]


def test_pre_training_never_sees_what_a_domain_reports_on(tmp_path: Path) -> None:
    cells = {"x": {"ranker": "pointwise", "set": {"pretrain.epochs": 1}}}
    plan = planned(tmp_path, cells, "abridge-3", domains={"other": {}}, pretraining={"limit": None})
    reported = {one.group for one in plan.sets["other"]}
    assert reported and plan.pretraining
    assert reported.isdisjoint(one.group for one in plan.pretraining)


@pytest.mark.parametrize(("window", "length"), [(None, 4), (3, 3)])
def test_articles_are_shortened_to_the_window_of_their_domain(
    tmp_path: Path, window: int | None, length: int
) -> None:
    articles = tmp_path / "articles"
    articles.mkdir()
    write_lines(articles / "ei2_fulltext.jsonl", *({"pmcid": id_, "text": TEXT} for id_ in "12345"))
    prompts = [prompt(span("20 min (P <0.01)"), pmcid=id_, prompt_id=id_) for id_ in "12345"]
    write_lines(articles / "prompts.jsonl", *prompts)
    domains = {"other": {"window": window}}
    sets = planned(tmp_path, table="abridge-3", pretrain=[articles], domains=domains).sets
    assert {len(one.sentences) for one in sets["other"]} == {length}
    assert all(SENTENCES[3] in one.sentences for one in sets["other"])


def test_a_second_data_set_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="--pretrain PATH"):
        planned(tmp_path, {"x": {"ranker": "pointwise", "set": {"pretrain.epochs": 1}}}, pretrain=[])


def test_data_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="--data PATH"):
        planned(tmp_path, data=[])


def test_too_few_examples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="give more examples"):
        planned(tmp_path, data=[write_examples(tmp_path / "few.jsonl", 2, "c")])


def test_a_ranker_that_changed_is_refused_and_another_may_join(tmp_path: Path) -> None:
    path = tmp_path / "out" / PLAN
    one, other = {"ranker": "pointwise"}, {"ranker": "pointwise", "set": {"epochs": 3}}
    keep_plan(path, [], planned(tmp_path, {"x": one}))
    with pytest.raises(ExperimentError, match="cell 'x' has changed since this experiment began: ranker"):
        keep_plan(path, [], planned(tmp_path, {"x": other}))
    with pytest.raises(ExperimentError, match=r"cell 'x' has changed .*: ranker, data"):
        keep_plan(path, [], planned(tmp_path, {"x": one}, limit=5))
    keep_plan(path, [], planned(tmp_path, {"x": one, "y": other}, seeds=[4]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rankers")
    save_tiny_encoder(made / "tiny")
    return made


def small(folder: Path) -> RankerPlan:
    cells = {
        "cross": {"ranker": "pointwise", "set": {"model.encoder": str(folder / "tiny")}},
        "broken": {"ranker": "pointwise", "set": {"model.encoder": str(folder / "nowhere")}},
        "bm25": {"ranker": "bm25"},
    }
    return planned(folder, cells, set={"epochs": 1}, seeds=[1, 2])


async def test_a_training_that_fails_is_named_and_the_others_are_scored(folder: Path) -> None:
    watcher = Quiet()
    failed = await train_rankers(small(folder), stop=asyncio.Event(), watcher=watcher)
    assert set(failed) == {"broken, seed 1", "broken, seed 2"}
    assert "no encoder at" in failed["broken, seed 1"]
    assert "cross, seed 1: train epoch 1 of 1" in watcher.lines
    plan = small(folder)
    assert plan.unfinished == ["broken, seed 1", "broken, seed 2"]
    scores = plan.scores()
    assert {name: list(seeds) for name, seeds in scores.items()} == {"bm25": [0], "cross": [1, 2]}
    sizes = [len(one.sentences) for one in plan.sets[HELD_OUT]]
    assert [len(one) for one in scores["cross"][1][HELD_OUT]] == sizes
    assert (folder / "out" / "cells" / "cross" / "seed-2" / "ranker.json").is_file()
    # What is finished stays.
    before = (folder / "out" / "cells" / "cross" / "seed-1.npz").stat().st_mtime_ns
    again = Quiet()
    await train_rankers(plan, stop=asyncio.Event(), watcher=again)
    assert not any("cross" in line for line in again.lines)
    assert (folder / "out" / "cells" / "cross" / "seed-1.npz").stat().st_mtime_ns == before
    # A process may have died between the last epoch and the scores.
    (folder / "out" / "cells" / "cross" / "seed-2.npz").unlink()
    await train_rankers(plan, stop=asyncio.Event(), watcher=again)
    assert [line for line in again.lines if "cross" in line] == ["ranker 4 of 5: cross, seed 2"]
    assert np.array_equal(plan.scores()["cross"][2][HELD_OUT][0], scores["cross"][2][HELD_OUT][0])


async def test_a_stop_leaves_the_rest_unfinished(tmp_path: Path) -> None:
    stop = asyncio.Event()
    stop.set()
    plan = planned(tmp_path, {"bm25": {"ranker": "bm25"}})
    assert await train_rankers(plan, stop=stop, watcher=Quiet()) == {}
    assert plan.unfinished == ["bm25"]


async def test_a_stop_begins_no_run(tmp_path: Path) -> None:
    stop = asyncio.Event()
    stop.set()
    cases = write_cases(tmp_path / "cases.jsonl", 1)
    of = Experiment.model_validate({"cases": [str(cases)], "cells": {"a": {}}, "model": "scripted:auto"})
    cells = plan(of, tmp_path / "out", [], None)
    (tmp_path / "out").mkdir()
    found = await run_cells(cells, tmp_path / "out", Options("run"), stop=stop, watcher=Quiet())
    assert found == Cells({}, {})
    assert not (tmp_path / "out" / "cells").exists()


async def test_other_sets_are_scored_anew_and_damaged_scores_are_named(tmp_path: Path) -> None:
    cells = {"bm25": {"ranker": "bm25"}}
    await train_rankers(planned(tmp_path, cells), stop=asyncio.Event(), watcher=Quiet())
    assert planned(tmp_path, cells).unfinished == []
    assert planned(tmp_path, cells, "abridge-5").unfinished == ["bm25"]
    path = tmp_path / "out" / "cells" / "bm25" / "seed-0.npz"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ExperimentError, match=r"seed-0\.npz: cannot be read: .*Remove it"):
        planned(tmp_path, cells).scores()


async def test_scores_are_those_of_the_ranker(tmp_path: Path) -> None:
    from ranking.rankers.bm25 import bm25_scores

    plan = planned(tmp_path, {"bm25": {"ranker": "bm25"}})
    await train_rankers(plan, stop=asyncio.Event(), watcher=Quiet())
    for one, logits in zip(plan.sets[HELD_OUT], plan.scores()["bm25"][0][HELD_OUT], strict=True):
        assert np.array_equal(logits, bm25_scores(one.query, one.sentences))
