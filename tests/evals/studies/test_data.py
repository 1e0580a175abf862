from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evals.studies.data import HELD_OUT, NOISY, StudyData, read_study_data, training_part
from evals.studies.definition import Study
from evals.studies.errors import StudyError
from evals.studies.jobs import Plan, plan
from ranking.examples import split
from tests.evals.studies.claims import write_examples


def study(**fields: Any) -> Study:
    values = {"recipe": "pointwise", "rows": {"x": {}}, "tables": {"abridge-2": ["x"]}}
    return Study.model_validate({**values, **fields})


def read(folder: Path, of: Study, count: int = 40) -> StudyData:
    data = write_examples(folder / "a.jsonl", count, "a")
    return read_study_data(of, [data], [write_examples(folder / "b.jsonl", 20, "b")])


def planned(folder: Path, of: Study) -> Plan:
    return plan(of, read(folder, of), folder / "out")


def test_parts_have_no_group_in_common(tmp_path: Path) -> None:
    data = read(tmp_path, study())
    parts = [{one.group for one in part} for part in (data.train, data.tuning, data.sets[HELD_OUT])]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 40
    assert len(parts[2]) == 8


@pytest.mark.parametrize("limit", [None, 5])
def test_a_training_holds_out_the_tuning_part_of_the_study(tmp_path: Path, limit: int | None) -> None:
    (job, *_) = planned(tmp_path, study(limit=limit)).jobs
    assert job.recipe is not None
    settings = job.recipe.split
    parted = split([*job.train, *job.tuning], settings.held_out, settings.seed)
    assert {one.id for one in parted.held_out} == {one.id for one in job.tuning}
    assert len(parted.train) == (limit or 26)


def test_seeds_change_the_recipe_and_not_the_parts(tmp_path: Path) -> None:
    jobs = planned(tmp_path, study(seeds=[1, 2])).jobs
    assert [job.recipe.seed for job in jobs if job.recipe] == [1, 2]
    assert jobs[0].train == jobs[1].train and jobs[0].tuning == jobs[1].tuning


def test_equal_rows_share_their_trainings(tmp_path: Path) -> None:
    rows = {"x": {"label": "X"}, "same": {"label": "Y"}, "other": {"set": {"epochs": 3}}}
    made = planned(tmp_path, study(rows=rows, seeds=[1]))
    assert [job.row for job in made.jobs] == ["x", "other"]
    assert made.owner == {"x": "x", "same": "x", "other": "other"}


def test_baselines_without_chance_are_made_once(tmp_path: Path) -> None:
    rows = {"bm25": {"baseline": "bm25"}, "random": {"baseline": "random"}}
    jobs = planned(tmp_path, study(rows=rows, tables={"tamu-1": ["bm25", "random"]}, seeds=[1, 2])).jobs
    assert [job.name for job in jobs] == ["bm25", "random, seed 1", "random, seed 2"]


def test_noise_is_in_the_queries_of_the_noisy_set_alone(tmp_path: Path) -> None:
    sets = read(tmp_path, study(tables={"abridge-5": ["x"]})).sets
    assert [one.sentences for one in sets[NOISY]] == [one.sentences for one in sets[HELD_OUT]]
    assert [one.query for one in sets[NOISY]] != [one.query for one in sets[HELD_OUT]]


def test_pre_training_never_sees_what_a_domain_reports_on(tmp_path: Path) -> None:
    of = study(
        rows={"x": {"pretrain": True}},
        domains={"own": {}, "other": {"of": "pretrain"}},
        tables={"abridge-3": ["x"]},
        pretraining={"limit": None},
    )
    data = read(tmp_path, of)
    reported = {one.group for one in data.sets["domain-other"]}
    assert reported and data.pretraining
    assert reported.isdisjoint(one.group for one in data.pretraining)


def test_pre_training_without_data_is_refused(tmp_path: Path) -> None:
    of = study(rows={"x": {"pretrain": True}})
    with pytest.raises(StudyError, match="--pretrain PATH"):
        read_study_data(of, [write_examples(tmp_path / "a.jsonl", 40, "a")], [])


def test_too_few_examples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="give more examples"):
        read(tmp_path, study(), count=2)


def test_a_row_that_trains_on_a_domain_leaves_the_others_out(tmp_path: Path) -> None:
    of = study(domains={"plain": {"structured": False}}, rows={"x": {"train_on": "plain"}})
    data = read(tmp_path, study())
    kinds = {one.document_id: number % 2 == 0 for number, one in enumerate((*data.train, *data.tuning))}
    marked = StudyData(data.train, data.tuning, data.sets, (), kinds)
    train, tuning = training_part(marked, of, of.rows["x"])
    assert len(train) == len(data.train) // 2
    assert not any(kinds[one.document_id] for one in (*train, *tuning))


def test_a_study_that_changed_does_not_go_on(tmp_path: Path) -> None:
    planned(tmp_path, study())
    with pytest.raises(StudyError, match="rows changed since this study began: x"):
        planned(tmp_path, study(set={"epochs": 3}))
    assert planned(tmp_path, study(rows={"x": {}, "new": {"set": {"epochs": 3}}})).jobs
