from __future__ import annotations

from pathlib import Path

import pytest

from evals.studies.definition import STUDIES, Study, adjusted, load_study
from evals.studies.errors import StudyError


def written(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("name", STUDIES.packaged_names())
def test_packaged_studies_are_sound(name: str) -> None:
    study = load_study(name)
    assert study.about
    named = {row for rows in study.tables.values() for row in rows}
    assert {name for name, row in study.rows.items() if row.baseline is None} <= named


def test_the_fusion_study_trains_a_row_once_for_all_its_tables() -> None:
    tables = load_study("fusion").tables
    assert all("early" in tables[name] for name in ("abridge-2", "abridge-5", "abridge-9"))


def test_a_table_that_names_no_row_says_which_was_meant(tmp_path: Path) -> None:
    text = "{recipe: pointwise, rows: {early: {}}, tables: {abridge-2: [earl]}}"
    with pytest.raises(StudyError, match="names row 'earl', which is not there; did you mean 'early'"):
        load_study(written(tmp_path, text))


def test_a_baseline_with_values_of_a_recipe_is_refused(tmp_path: Path) -> None:
    text = "{recipe: pointwise, rows: {x: {baseline: bm25, set: {epochs: 2}}}, tables: {abridge-2: [x]}}"
    with pytest.raises(StudyError, match="a baseline takes neither"):
        load_study(written(tmp_path, text))


def test_unknown_fields_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="sedes"):
        load_study(written(tmp_path, "{recipe: pointwise, sedes: [1], rows: {x: {}}, tables: {}}"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("objective", "did you mean 'objectives'"), ("x", "packaged studies: fusion, objectives, smoke")],
)
def test_an_unknown_name_gets_the_nearest_study_or_all(name: str, hint: str) -> None:
    with pytest.raises(StudyError, match=hint):
        load_study(name)


def test_a_recipe_beside_the_study_is_found_there(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("{}", "utf-8")
    text = "{rows: {x: {recipe: own.yaml}, y: {}}, tables: {abridge-2: [x, y]}}"
    made = load_study(written(tmp_path, text))
    assert (made.rows["x"].recipe, made.rows["y"].recipe) == (str(tmp_path / "own.yaml"), "")


def study() -> Study:
    return load_study("smoke")


def test_a_command_line_replaces_seeds_limit_and_encoder() -> None:
    changed = adjusted(study(), seeds="4,5", limit=3, encoder="here")
    assert (changed.seeds, changed.limit, changed.set["model.encoder"]) == ((4, 5), 3, "here")


@pytest.mark.parametrize("seeds", ["", "1,x", "1,1", "0"])
def test_wrong_seeds_are_refused(seeds: str) -> None:
    with pytest.raises(StudyError, match="--seeds"):
        adjusted(study(), seeds=seeds, limit=None, encoder=None)
