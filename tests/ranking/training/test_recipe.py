from __future__ import annotations

from pathlib import Path

import pytest

from ranking.errors import RankerError
from ranking.training.recipe import TRAINING_RECIPES, TrainingRecipe, load_training_recipe, override


@pytest.mark.parametrize("name", TRAINING_RECIPES.packaged_names())
def test_packaged_recipes_load(name: str) -> None:
    assert load_training_recipe(name).sha256


def test_a_typo_names_the_nearest_field() -> None:
    with pytest.raises(RankerError, match=r"unknown field 'epoch'; did you mean 'epochs'\?"):
        TRAINING_RECIPES.check(TrainingRecipe, {"epoch": 3}, "mine")


def test_a_typo_in_a_section_names_the_nearest_field() -> None:
    with pytest.raises(RankerError, match=r"unknown field 'model\.contxt'; did you mean 'context'\?"):
        TRAINING_RECIPES.check(TrainingRecipe, {"model": {"contxt": "lstm"}}, "mine")


def test_an_unknown_name_names_the_nearest_recipe() -> None:
    with pytest.raises(RankerError, match="did you mean 'pointwise'"):
        load_training_recipe("pointwse")


def test_a_wrong_value_names_its_field(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("split: {held_out: 2}")
    with pytest.raises(RankerError, match=r"split\.held_out: Input should be less than 1"):
        load_training_recipe(str(tmp_path / "r.yaml"))


def test_the_weight_of_evidence_has_one_place() -> None:
    with pytest.raises(RankerError, match="set pos_weight next to objective"):
        TRAINING_RECIPES.check(TrainingRecipe, {"objective": {"pos_weight": 2}}, "mine")


def test_an_override_reaches_into_sections_that_were_not_there() -> None:
    recipe = override(load_training_recipe("pointwise"), {"pretrain.data": ["a"]}, "pointwise")
    assert recipe.pretrain is not None
    assert recipe.pretrain.data == ("a",)
