"""`evigraph submit`, `validate` and `score` for BioASQ, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evals.bioasq.runs import QUESTIONS, failed, ideal_lines, make_run
from tests.evigraph import evigraph


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of both phases whose last question failed, and what it submits to phase A."""
    folder = tmp_path_factory.mktemp("bioasq")
    *lines, last = ideal_lines()
    make_run(folder, [*lines, failed(last)])
    return folder


def test_a_run_is_handed_in_checked_and_scored(folder: Path) -> None:
    refused = evigraph("submit", "run", "--task", "bioasq-a", folder=folder)
    assert refused.code == 1 and "failed: timeout" in refused.err and "nothing written" in refused.err
    ended = evigraph("submit", "run", "--task", "bioasq-a", "--fill-missing", "--json", folder=folder)
    assert (ended.code, ended.summary["questions"], len(ended.summary["filled"])) == (0, 24, 1)
    path = ended.summary["file"]
    checked = evigraph("validate", path, "--cases", QUESTIONS, "--json", folder=folder)
    assert (checked.summary["task"], checked.summary["refused"]) == ("bioasq-a", 0)
    scored = evigraph("score", path, "--key", QUESTIONS, "--json", folder=folder)
    documents = scored.summary["bioasq"][0]
    assert documents["groups"]["all"]["values"]["map"] == pytest.approx(23 / 24)


def test_a_run_is_scored_by_type_with_intervals(folder: Path) -> None:
    ended = evigraph("score", "run", folder=folder)
    assert ended.code == 0, ended.err
    for told in ("phase A: documents", "summary (6)", "macro_f1", "rouge_su4_f1", "1 without an answer"):
        assert told in ended.out
    compat = evigraph("score", "run", "--bioasq-compat", "--task", "bioasq-b", folder=folder)
    assert "skipped, as BioASQ does" in compat.out and "phase A" not in compat.out


def test_definitions_can_be_chosen(folder: Path) -> None:
    given = ("score", "run", "--map-divisor", "ten", "--rouge-su4", "textbook", "--json")
    chosen, ours = (
        evigraph(*given, folder=folder).summary,
        evigraph(*given[:2], "--json", folder=folder).summary,
    )
    of = [{one["part"]: one for one in told["bioasq"]} for told in (ours, chosen)]
    assert [one["documents"]["definitions"]["average_precision"] for one in of] == ["capped", "ten"]
    least = [one["documents"]["groups"]["all"]["values"]["map"] for one in of]
    assert 0 < least[1] < least[0]
    assert of[0]["ideal"]["groups"]["all"]["values"] != of[1]["ideal"]["groups"]["all"]["values"]


def test_faults_are_named_with_question_and_field(folder: Path) -> None:
    entry = {"id": ideal_lines()[0]["case_id"], "exact_answer": "perhaps", "ideal_answer": "So."}
    (folder / "b.json").write_text(json.dumps({"questions": [entry]}))
    ended = evigraph("validate", "b.json", "--task", "bioasq-b", "--cases", QUESTIONS, folder=folder)
    assert ended.code == 1
    assert entry["id"] in ended.out and "exact_answer" in ended.out
    assert "1 refused, 23 penalised" in ended.out


def test_without_the_phase_answers_may_be_of_two(folder: Path) -> None:
    (folder / "c.json").write_text(json.dumps({"questions": [{"id": "q", "ideal_answer": "So."}]}))
    ended = evigraph("validate", "c.json", folder=folder)
    assert ended.code == 2 and "--task bioasq-a+ or --task bioasq-b" in ended.err


def test_a_submission_is_scored_against_questions(folder: Path) -> None:
    (folder / "d.json").write_text(json.dumps({"questions": [{"id": "q", "ideal_answer": "So."}]}))
    ended = evigraph("score", "d.json", folder=folder)
    assert ended.code == 2 and "--cases QUESTIONS.json" in ended.err
