from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evigraph import evigraph, said

ENTRY = {"QUESTION": "Does mint tea help?", "CONTEXTS": ["It did in 9 of 10."], "final_decision": "yes"}


@pytest.fixture
def scifact(tmp_path: Path) -> Path:
    """Six claims, each on a different abstract."""
    (tmp_path / "scifact").mkdir()
    for number in range(6):
        claim = {"id": number, "claim": f"Claim {number}.", "cited_doc_ids": [number]}
        claim["evidence"] = {str(number): [{"sentences": [1], "label": "SUPPORT"}]}
        abstract = {"doc_id": number, "title": "T", "abstract": [f"First of {number}.", "Second."]}
        for name, line in (("claims_train", claim), ("corpus", abstract)):
            with (tmp_path / "scifact" / f"{name}.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
    return tmp_path


def test_claims_become_cases_that_run(scifact: Path) -> None:
    made = evigraph("cases", "scifact", "scifact", "--out", "all.jsonl", folder=scifact)
    assert made.code == 0, made.err
    assert "6 cases with 12 sentences, 6 essential, in all.jsonl" in made.out
    ran = evigraph(
        *("run", "tamu", "all.jsonl", "--recipe", "tamu-ranker", "--model", "scripted:auto"),
        *("--out", "run", "--json"),
        folder=scifact,
    )
    assert ran.code == 0, ran.err
    assert ran.summary["evidence_scores"]["scored_cases"] == 6


def test_parts_and_choices_of_claims(scifact: Path) -> None:
    counts = [
        evigraph(
            *("cases", "scifact", "scifact", "--out", "some.jsonl", "--json", *more), folder=scifact
        ).summary["cases"]
        for more in (("--part", "1/2"), ("--part", "2/2"), ("--limit", "2", "--seed", "7"))
    ]
    assert counts[0] + counts[1] == 6 and counts[2] == 2


def test_questions_of_pubmedqa_become_those_of_bioasq(tmp_path: Path) -> None:
    maybe = {**ENTRY, "final_decision": "maybe"}
    (tmp_path / "pqal.json").write_text(json.dumps({"1": ENTRY, "2": maybe, "3": ENTRY}))
    made = evigraph("cases", "pubmedqa", "pqal.json", "--out", "yesno.json", folder=tmp_path)
    assert made.code == 0, made.err
    assert "2 questions, 2 answered yes, in yesno.json" in made.out
    assert "left out: 1 answered maybe" in made.out
    ran = evigraph(
        *("run", "bioasq", "yesno.json", "--model", "scripted:auto", "--out", "run"), folder=tmp_path
    )
    assert ran.code == 0, ran.err
    scored = evigraph("score", "run", folder=tmp_path)
    assert scored.code == 0 and "yes or no" in scored.out


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("scifact", "none", "--out", "x.jsonl"), "none: no such file or folder"),
        (("scifact", "scifact", "--out", "x.jsonl", "--part", "3/2"), "invalid part: '3/2'"),
        (("scifact", "scifact", "--out", "no/x.jsonl"), "no/x.jsonl: cannot be written"),
        (("pubmedqa", "maybe.json", "--out", "x.json"), "no question in it is answered yes or no"),
        (("pubmedqa", "none.json", "--out", "x.json"), "none.json: cannot be read"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], fault: str, scifact: Path) -> None:
    (scifact / "maybe.json").write_text(json.dumps({"1": {**ENTRY, "final_decision": "maybe"}}))
    ended = evigraph("cases", *arguments, folder=scifact)
    assert ended.code == 2
    assert fault in ended.line


def test_an_import_names_the_files_that_it_did_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("Fever. Cough.")
    (tmp_path / "notes" / "x.exe").touch()
    found = said("cases", "import", "notes", "--question", "Why?")
    assert "not read: 1 file (notes/x.exe) 1 case with 2 sentences, not written" in found
    refused = said("cases", "import", "notes", "--question", "Why?", "--out", "cases.json")
    assert refused == "cases.json: is not the name of a .jsonl file. Call it cases.jsonl"


def test_cases_of_notes_keep_the_policy_of_the_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(f"name: {name}\nhosts:\n- '*'\n")
    (tmp_path / "notes" / "a.txt").write_text("Fever. Cough.")
    given = ("cases", "import", "notes", "--question", "Why?", "--out")
    assert "the notes and this folder have different policies" in said(*given, "other/cases.jsonl")
    assert not (tmp_path / "other" / "cases.jsonl").exists()
    (tmp_path / "fresh").mkdir()
    assert "in fresh/cases.jsonl" in said(*given, "fresh/cases.jsonl")
    assert (tmp_path / "fresh" / "policy.yaml").read_text() == "name: notes\nhosts:\n- '*'\n"
