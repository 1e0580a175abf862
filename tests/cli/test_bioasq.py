"""BioASQ's questions from a file to answers, as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runs.record.folder import RunFolder
from tests.evigraph import Ended, edit_manifest, evigraph

SAMPLES = Path(__file__).parents[2] / "cases" / "samples" / "bioasq" / "questions.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run `run` over four of the sample questions, each of another type, with the others as shots."""
    folder = tmp_path_factory.mktemp("bioasq")
    questions = json.loads(SAMPLES.read_text("utf-8"))["questions"]
    firsts = {one["type"]: one for one in reversed(questions)}
    (folder / "four.json").write_text(json.dumps({"questions": [*firsts.values()]}))
    shutil.copy(SAMPLES, folder / "train.json")
    (folder / "votes.yaml").write_text("system: bioasq\nexact: {votes: 3, shots: 2}\n")
    ended = run(folder, "--recipe", "votes.yaml", "--demos", "train.json", "--out", "run", "--json")
    assert ended.code == 0, ended.err
    return folder


def run(folder: Path, *more: str) -> Ended:
    return evigraph(
        *("run", "bioasq", "four.json", "--phase", "b", "--model", "scripted:auto", *more), folder=folder
    )


def test_every_type_is_answered_and_shots_are_recorded(folder: Path) -> None:
    opened = RunFolder(folder / "run")
    lines = [*opened.cases()]
    assert len(lines) == 4 and all(line["answer"] and line["snippets"] for line in lines)
    assert sum(line["exact_answer"] is None for line in lines) == 1
    assert {flag for line in lines for flag in line["flags"]} <= {"no_agreed_entry"}
    manifest = opened.manifest
    assert set(manifest.resources) == {"answered_questions"}
    shots = manifest.resources["answered_questions"]
    assert (shots["path"], shots["count"]) == (str(folder / "train.json"), 20)
    assert manifest.recipe_overrides == {"documents.phase": "b"}
    assert set(manifest.prompts) >= {"answer_exactly", "answer_ideally"}
    assert "read_passages" not in manifest.prompts


def test_a_resume_remembers_the_shots_and_refuses_others(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    resources = RunFolder(tmp_path / "copy" / "run").manifest.resources
    assert evigraph("resume", "run", folder=folder).code == 0
    resources["answered_questions"]["path"] = str(folder / "four.json")
    edit_manifest(tmp_path / "copy" / "run", resources=resources)
    ended = evigraph("resume", "run", folder=tmp_path / "copy")
    assert ended.code == 2
    assert "changed since this run began: answered questions" in ended.line


def test_a_case_is_shown_with_its_votes_and_its_key(folder: Path) -> None:
    questions = json.loads((folder / "four.json").read_text())["questions"]
    id_ = next(one["id"] for one in questions if one["type"] == "list")
    shown = evigraph("show", "run", id_, folder=folder)
    assert shown.code == 0, shown.err
    for part in ("type", "list", "vote 2: ", "exact answer", "of 3 votes", "exact key", "ideal key"):
        assert part in shown.out
    assert "built on" not in shown.out


def test_shots_that_nobody_would_show_are_refused(folder: Path) -> None:
    (folder / "none.yaml").write_text("system: bioasq\nexact: {shots: 0}\n")
    ended = run(folder, "--recipe", "none.yaml", "--demos", "train.json")
    assert ended.code == 2
    assert "its prompts show no answered questions: set exact.shots above 0" in ended.err


def test_a_question_without_type_fails_and_the_line_says_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"case_id": "1", "question": "Why?"}\n')
    arguments = ("run", "bioasq", "q.jsonl", "--phase", "b", "--model", "scripted:auto", "--out", "run")
    assert evigraph(*arguments, folder=tmp_path).code == 1
    (line,) = RunFolder(tmp_path / "run").cases()
    assert line["error"]["class"] == "invalid_input"
    assert "one of yesno, factoid, list, summary" in line["error"]["message"]
    assert line["flags"] == ["no_snippets"]
    assert "no type" in evigraph("show", "run", "1", folder=tmp_path).out


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    documents = SAMPLES.with_name("documents.jsonl")
    assert evigraph("corpus", "build", str(documents), "--out", "corpus", folder=tmp_path).code == 0
    build = ("index", "build", "corpus", "--out", "index", "--embedding", "lexical:64")
    assert evigraph(*build, folder=tmp_path).code == 0
    return tmp_path


def test_without_a_reranker_a_trace_names_the_search(indexed: Path) -> None:
    ended = evigraph(
        *("run", "bioasq", str(SAMPLES), "--recipe", "bioasq-paper", "--index", "index", "--limit", "1"),
        *("--model", "scripted:auto", "--out", "run"),
        folder=indexed,
    )
    assert ended.code == 0, ended.err
    shown = evigraph("show", "run", next(RunFolder(indexed / "run").cases())["case_id"], folder=indexed)
    assert "1 x minmax of the dense search, 7 x linear of the model" in " ".join(shown.out.split())


def test_a_phase_that_finds_no_documents_refuses_a_reranker(folder: Path) -> None:
    ended = run(folder, "--reranker", "bm25")
    assert ended.code == 2
    assert "--reranker needs --phase a, or both" in ended.err


def test_lists_and_pages_score_every_part_as_score_does(folder: Path) -> None:
    scored = evigraph("score", "run", "--json", folder=folder).summary["bioasq"]
    wanted = {one["part"]: one["groups"]["all"]["values"] for one in scored}
    assert set(wanted) == {"yesno", "factoid", "list", "ideal"}
    (row,) = evigraph("runs", "--root", ".", "--json", folder=folder).summary["runs"]
    assert [(one["name"], one["questions"]) for one in row["answers"]] == [
        ("accuracy of yes and no", 1),
        ("MRR of factoids", 1),
        ("F1 of lists", 1),
        ("ROUGE-SU4 F1 of ideal answers", 4),
    ]
    measures = (("yesno", "accuracy"), ("factoid", "mrr"), ("list", "f1"), ("ideal", "rouge_su4_f1"))
    values = [one["value"] for one in row["answers"]]
    assert values == pytest.approx([wanted[part][measure] for part, measure in measures])
    assert 0 < values[-1] < 1 and row["score"] == values[0]
    ended = evigraph("view", "run", "--bundle", "pages", folder=folder)
    assert ended.code == 0, ended.err
    sizes = [path.stat().st_size for path in (folder / "pages").rglob("*") if path.is_file()]
    assert f"{sum(sizes) / 1e6:,.1f} MB in {len(sizes)} files" in ended.out
    page, runs = ((folder / "pages" / name).read_text("utf-8") for name in ("run/index.html", "index.html"))
    assert f"ROUGE-SU4 F1 of ideal answers {values[-1]:.3f}, 4 cases" in page
    assert f'{values[-1]:.3f} <span class="muted">ROUGE-SU4 F1 of ideal answers, 4 cases</span>' in runs
