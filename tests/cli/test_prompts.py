"""`evigraph prompts`, and runs with prompts of the user's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.evigraph import evigraph, write_cases, write_recipe

OWN = "closing:\n- {role: user, text: 'Sort ${question} of ${narrative} into ${intents}.'}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_cases(tmp_path / "cases.jsonl", 1)
    write_recipe(tmp_path)
    (tmp_path / "own.yaml").write_text(OWN)
    return tmp_path


def run(folder: Path, *further: str) -> dict[str, Any]:
    arguments = ("cases.jsonl", "--recipe", "lexical.yaml", "--model", "scripted:auto", "--out", "run")
    ended = evigraph("run", "tamu", *arguments, *further, folder=folder)
    assert ended.code == 0, ended.err
    return manifest(folder / "run")


def manifest(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_text())
    return found


def test_prompts_are_listed_with_their_systems_and_versions(tmp_path: Path) -> None:
    listed = evigraph("prompts", "list", "--json", folder=tmp_path).summary["prompts"]
    (one,) = (prompt for prompt in listed if prompt["name"] == "label_sentence")
    assert one == {"name": "label_sentence", "systems": ["tamu"], "versions": ["default", "claims", "laptop"]}


def test_a_prompt_is_shown_as_its_version_has_it(tmp_path: Path) -> None:
    own = evigraph("prompts", "show", "label_sentence", "--prompt-set", "claims", folder=tmp_path)
    assert "scientific claim" in own.out and "label_sentence of claims" in own.err
    taken = evigraph("prompts", "show", "answer_from_evidence", "--prompt-set", "claims", folder=tmp_path)
    assert "answer_from_evidence of laptop" in taken.err
    typo = evigraph("prompts", "show", "label_sentense", folder=tmp_path)
    assert (typo.code, typo.line) == (2, "no prompt 'label_sentense'; did you mean 'label_sentence'?")


def test_a_run_uses_the_copy_that_was_edited(folder: Path) -> None:
    copied = evigraph("prompts", "copy", "classify_intent", "--to", "mine", folder=folder)
    assert copied.code == 0, copied.err
    (folder / "mine" / "classify_intent.yaml").write_text(OWN)
    edited = run(folder, "--prompt-set", "mine")
    assert edited["recipe"]["prompts"] == str(folder / "mine")
    assert edited["prompts"]["classify_intent"] == hashlib.sha256(OWN.encode()).hexdigest()
    assert "prompt_files" not in edited


def test_a_run_goes_on_with_the_prompt_that_it_was_given(folder: Path) -> None:
    given = run(folder, "--prompt", "classify_intent=own.yaml")
    assert given["prompt_files"] == {"classify_intent": str(folder / "own.yaml")}
    again = ("rerun", "run", "k0", "--from", "classify_intent")
    (folder / "sibling").mkdir()
    assert evigraph("resume", folder / "run", folder=folder / "sibling").code == 0
    forked = evigraph(*again, folder=folder)
    assert forked.code == 0, forked.err
    assert list(manifest(folder / "run/forks/1")["forked_from"]["changes"]) == ["seed"]
    other = evigraph(
        "rerun", "run", "k0", "--from", "classify_intent", "--prompt-set", "laptop", folder=folder
    )
    assert other.code == 0, other.err
    changes = manifest(folder / "run/forks/2")["forked_from"]["changes"]
    assert list(changes) == ["prompts", "prompt classify_intent"]
    (folder / "own.yaml").write_text(OWN.replace("Sort", "Put"))
    refused = evigraph("resume", "run", folder=folder)
    assert refused.code == 2
    assert "changed since this run began: prompt classify_intent." in refused.line


def test_a_version_is_given_once(folder: Path) -> None:
    further = ("--prompt-set", "laptop", "--set", "prompts=claims", "--model", "scripted:auto")
    ended = evigraph("run", "tamu", "cases.jsonl", *further, folder=folder)
    assert ended.code == 2
    assert "--set prompts is also set by another option" in ended.err
