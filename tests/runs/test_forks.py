"""What a fork changed, in words of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graph.tamu import TamuRecipe
from runs.fork.forks import changes, forks, new_folder
from runs.record.folder import RunWriter
from runs.record.manifest import Inputs, Manifest, Model
from serving.protocol.model_name import ROLES


def manifest(models: dict[str, str], prompt: str = "a" * 64) -> Manifest:
    return Manifest(
        evigraph="1",
        system="tamu",
        recipe=TamuRecipe().model_dump(mode="json"),
        recipe_sha256="",
        recipe_origin="tamu",
        prompts={"generate_answer": prompt},
        inputs=Inputs(paths=[], sha256="", cases=1),
        models={role: Model(name=models.get(role, "scripted:auto")) for role in ROLES},
        versions={},
    )


BEFORE = manifest({})


@pytest.mark.parametrize(
    ("models", "found"),
    [
        ({"answer": "scripted:b"}, {"model of answer": ("scripted:auto", "scripted:b")}),
        (dict.fromkeys(ROLES, "scripted:b"), {"model": ("scripted:auto", "scripted:b")}),
    ],
)
def test_a_model_of_all_roles_is_told_once(models: Any, found: object) -> None:
    assert changes(BEFORE, manifest(models), {}) == found


@pytest.mark.parametrize(
    ("files", "shown"), [({}, "b" * 12), ({"generate_answer": Path("mine.yaml")}, "mine.yaml")]
)
def test_a_prompt_is_told_by_its_file_or_its_hash(files: dict[str, Path], shown: str) -> None:
    after = manifest({}, prompt="b" * 64)
    assert changes(BEFORE, after, files) == {"prompt generate_answer": ("a" * 12, shown)}


def test_a_resource_that_changed_is_told_by_its_hash_identity_or_field() -> None:
    before, after = (
        BEFORE.model_copy(
            update={
                "resources": {
                    "demonstrations": {"sha256": letter * 64, "embedder": f"lexical:{letter}"},
                    "ranker": {"identity": f"bm25-{letter}"},
                }
            }
        )
        for letter in "ab"
    )
    assert changes(before, after, {}) == {
        "demonstrations": ("a" * 12, "b" * 12),
        "demonstrations embedder": ("lexical:a", "lexical:b"),
        "ranker": ("bm25-a", "bm25-b"),
    }


def test_a_fork_takes_the_next_free_number_and_one_being_made_is_none_yet(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", BEFORE) as run:
        made = [new_folder(run.path, 1), new_folder(run.path, 1)]
        assert [one.name for one in made] == ["1", "2"]
        assert forks(run) == []
