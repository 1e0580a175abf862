from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lxml.html
import pytest

import runs
from runs.record.folder import CALLS, CASES, RunFolder
from runs.record.reading import Run
from runs.record.sealed import seal_line
from tests.evals.bioasq.runs import ideal_lines, make_run
from tests.evigraph import evigraph, write_cases, write_recipe
from tests.viewer.case_runs import call, line, step, write_run
from tests.viewer.written_run import add, ended, finish, new_run
from viewer.addresses import ServedAddresses
from viewer.pages.compare import (
    Difference,
    Piece,
    Side,
    compare,
    compare_case,
    compare_case_page,
    compare_page,
    compare_scores,
    mark_differences,
    prompt_pairs,
    sentence_pairs,
)

HOSTILE = "</p><script>alert(1)</script>"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of four cases; the second differs in labels of k1, the answer of k2 and the end of k3."""
    folder = tmp_path_factory.mktemp("compare")
    write_cases(folder / "cases.jsonl", 4)
    recipe = write_recipe(folder)
    for name in ("a", "b"):
        arguments = ("run", "tamu", "cases.jsonl", "--model", "scripted:auto", "--out", name)
        assert evigraph(*arguments, "--recipe", str(recipe), folder=folder).code == 0
    path = folder / "b" / CASES
    lines = list(RunFolder(folder / "b").cases())
    lines[1]["labels"] = {
        id_: "not-essential" if label == "essential" else "essential"
        for id_, label in lines[1]["labels"].items()
    }
    lines[2]["answer"] = f"{lines[2]['answer']} {HOSTILE}"
    lines[3] |= {"status": "failed", "error": {"class": "timeout", "message": "late"}}
    path.write_bytes(b"".join(seal_line(json.dumps(line).encode()) + b"\n" for line in lines))
    return folder / "a", folder / "b"


@pytest.fixture
def both(folders: tuple[Path, Path]) -> Iterator[tuple[Run, Run]]:
    with runs.open(folders[0]) as one, runs.open(folders[1]) as other:
        yield one, other


def by_id(cases: tuple[Difference, ...]) -> dict[str, Difference]:
    return {case.case_id: case for case in cases}


def test_only_cases_that_differ_are_there(both: tuple[Run, Run]) -> None:
    found = compare(*both)
    assert (found.shared, found.only) == (4, (0, 0))
    assert {case.case_id: case.kinds for case in found.cases} == {
        "k1": ("labels",),
        "k2": ("answer",),
        "k3": ("status",),
    }
    assert by_id(found.cases)["k3"].statuses == ("done", "timeout")


def test_one_case_alone_is_compared_as_in_the_whole(both: tuple[Run, Run]) -> None:
    whole = by_id(compare(*both).cases)
    assert compare_case(*both, "k1") == whole["k1"]
    assert compare_case(*both, "k0").kinds == ()


def test_sentences_that_say_the_same_are_left_out() -> None:
    def line(labels: dict[str, str], counts: dict[str, int]) -> dict[str, Any]:
        return {"labels": labels, "vote_counts": counts}

    one = line({"1": "essential", "2": "not-essential", "3": "essential"}, {"1": 3, "2": 0, "3": 3})
    other = line({"1": "essential", "2": "essential", "3": "essential"}, {"1": 3, "2": 3, "3": 2})
    assert [(pair.id, pair.labels, pair.votes) for pair in sentence_pairs(one, other, None)] == [
        ("2", ("not-essential", "essential"), (0, 3)),
        ("3", ("essential", "essential"), (3, 2)),
    ]


def test_words_that_only_one_text_has_are_told_from_the_others() -> None:
    one, other = mark_differences("The drain was kept in place.", "The drain was removed.")
    assert "".join(piece.text for piece in one) == "The drain was kept in place."
    assert [piece.text for piece in other if not piece.shared] == ["removed."]
    assert [piece.text for piece in one if piece.shared] == ["The drain was "]


def test_a_kind_and_a_page_are_shown_alone(both: tuple[Run, Run]) -> None:
    sides = Side("a", both[0]), Side("b", both[1])
    page = compare_page(*sides, compare(*both), ServedAddresses(), kind="answer", page=99)
    body = lxml.html.fromstring(page)
    assert [
        "".join(map(str, link.itertext()))
        for link in body.iter("a")
        if "/compare/case?" in link.get("href", "")
    ] == ["k2"]
    assert "3 of 4 cases differ" in page


def test_text_of_an_answer_stays_text(both: tuple[Run, Run]) -> None:
    sides = Side("a", both[0]), Side("b", both[1])
    body = lxml.html.fromstring(compare_case_page(*sides, "k2", ServedAddresses()))
    assert next(body.iter("script"), None) is None
    assert any(HOSTILE in "".join(map(str, mark.itertext())) for mark in body.iter("mark"))


def test_a_case_that_failed_in_one_run_has_a_page(both: tuple[Run, Run]) -> None:
    sides = Side("a", both[0]), Side("b", both[1])
    assert "done → timeout" in compare_case_page(*sides, "k3", ServedAddresses())


def test_scores_of_both_have_intervals_and_prompts_stand_side_by_side(tmp_path: Path) -> None:
    for name, labels in (("a", ["1", "2"]), ("b", ["1", "3"])):
        chosen = {str(number): "not-essential" for number in range(1, 5)} | dict.fromkeys(labels, "essential")
        with new_run(tmp_path / name, [f"k{number}" for number in range(4)]) as run:
            for number in range(4):
                add(run, ended(f"k{number}", labels=chosen if number else {"1": "essential"}))
            finish(run)
    one, other = (Side(name, runs.open(tmp_path / name)) for name in ("a", "b"))
    scored, (precision, recall, f1) = compare_scores(one.run, other.run)
    assert scored == 4
    assert [cell.text for cell in f1[1:]] == ["93.33", "53.33", "-40.00"]
    assert (precision.first.text, recall.second.text) == ("100.00", "50.00")
    assert recall.name == "strict micro recall"
    assert f1.difference.below[0].startswith("[-")
    page = compare_page(one, other, compare(one.run, other.run), ServedAddresses())
    assert "-40.00" in page and "4 cases" in page


def test_prompts_that_differ_are_marked_line_by_line(tmp_path: Path) -> None:
    for name, prompt in (("a", "Label.\nBriefly."), ("b", "Label.\n")):
        journal = tmp_path / name / CALLS
        (tmp_path / name).mkdir()
        asked, other = call(journal, "label", 0, prompt, "r"), call(journal, "answer", 0, name, "r")
        gone = step("interpret_question", calls=[{**asked, "key": "0" * 64}])
        again = step("label_evidence", calls=[other])
        steps = [gone, step("label_evidence", calls=[asked]), again, *([again] if name == "b" else [])]
        journal.rename(write_run(tmp_path / name, {"case_id": "c"}, line("c"), steps) / CALLS)
    both = runs.open(tmp_path / "a" / "run"), runs.open(tmp_path / "b" / "run")
    (pair,) = prompt_pairs(*both, "c")
    assert (pair.node, pair.changed) == ("label_evidence", 1)
    assert [piece.text for side in pair.pieces for piece in side if not piece.shared] == ["Briefly."]
    assert compare_case(*both, "c").kinds == ("route",)


def test_answers_to_questions_are_compared_by_the_headline_of_each_part(tmp_path: Path) -> None:
    every = [{**ended(line["case_id"]), **line} for line in ideal_lines()]
    fewer = [{**line, "document_ranking": []} for line in every]
    one, other = (
        runs.open(make_run(tmp_path / name, lines).path) for name, lines in (("a", every), ("b", fewer))
    )
    scored, rows = compare_scores(one, other)
    assert scored == 24
    documents = next(row for row in rows if row.name == "MAP of documents")
    assert [cell.text for cell in documents[1:]] == ["1.0000", "0.0000", "-1.0000"]


def test_lines_that_only_one_prompt_has_are_marked() -> None:
    one, other = mark_differences("a\nb\nc\n", "a\nx\nc\n", re.compile(r"[^\n]*\n"))
    assert [piece for piece in one if not piece.shared] == [Piece("b\n", False)]
    assert [piece.text for piece in other] == ["a\n", "x\n", "c\n"]
