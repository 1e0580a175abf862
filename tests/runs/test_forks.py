"""What a fork changed, in words of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graph.tamu import TamuRecipe
from runs.fork.forks import changes
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
