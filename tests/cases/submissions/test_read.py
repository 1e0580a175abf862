"""Each silence of the official loaders: what a submission says, and what is scored of it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from cases.submissions.archehr import CitedSentence, Prediction, Task
from cases.submissions.tasks import ARCHEHR
from storage.errors import InputError


def read(tmp_path: Path, task: Task, *entries: object) -> list[Prediction]:
    path = tmp_path / "submission.json"
    path.write_text(json.dumps(entries), "utf-8")
    return ARCHEHR[task].read(path)


def read_answer(tmp_path: Path, answer: str) -> Prediction:
    (prediction,) = read(tmp_path, "2025", {"case_id": "7", "answer": answer})
    return prediction


def read_value(tmp_path: Path, task: Task, value: object) -> Prediction:
    (prediction,) = read(tmp_path, task, {"case_id": "7", "prediction": value})
    return prediction


def refusal(tmp_path: Path, task: Task, entry: object) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, task, entry)
    return caught.value.fault


def test_2025_fills_three_parts(tmp_path: Path) -> None:
    read = read_answer(tmp_path, "Sentence one. |1|\n\nSentence two. |2,1|\nUncited sentence.\n")
    assert read == Prediction(
        "7",
        evidence=("1", "2"),
        answer="Sentence one. Sentence two. Uncited sentence.",
        cited_answer=(
            CitedSentence("Sentence one.", ("1",)),
            CitedSentence("Sentence two.", ("2", "1")),
            CitedSentence("Uncited sentence.", ()),
        ),
    )


@pytest.mark.parametrize(
    ("answer", "text", "cited"),
    [
        ("So. |1, 2|", "So.", ("1", " 2")),
        ("So. | 1|", "So.", (" 1",)),
        ("So. |1,,2,|", "So.", ("1", "2")),
        ("So. |1-3|", "So.", ("1-3",)),
        ("So |1| |2|", "So |1|.", ("2",)),
        ("A |1| B |2|", "A |1| B.", ("2",)),
        ("A. |1| dropped", "A.", ("1",)),
        ("A. |1|.", "A.", ("1",)),
        ("A (1) [2]\nB |3|", "A (1) [2]. B.", ("3",)),
        ("A |1\nB |3|", "A |1. B.", ("3",)),
        ("Na 140 | K 4 | Cl 100", "Na 140.", (" K 4 ",)),
        ("Really? |1|\nYes! |2|", "Really? Yes!", ("1", "2")),
        ('He said "so". |1|\nOdd) |2|', 'He said "so". Odd).', ("1", "2")),
        ("|1|", "", ("1",)),
        ("A\r\nB |1|\r", "A. B.", ("1",)),
        ("A\u2028B |1|", "A\u2028B.", ("1",)),
    ],
)
def test_2025_lines(tmp_path: Path, answer: str, text: str, cited: tuple[str, ...]) -> None:
    read = read_answer(tmp_path, answer)
    assert (read.answer, read.evidence) == (text, cited)


def test_2025_is_cut_at_75_words_but_citations_beyond_count(tmp_path: Path) -> None:
    long = " ".join(f"w{n}" for n in range(80))
    read = read_answer(tmp_path, f"{long} |1|\nMore. |2|")
    assert read.answer == " ".join(f"w{n}" for n in range(75))
    assert read.evidence == ("1", "2")


def test_2025_words_are_parted_by_single_spaces_alone(tmp_path: Path) -> None:
    tabbed = "\t".join("w" * 100)
    assert read_answer(tmp_path, f"{tabbed}  end |1|").answer == f"{tabbed}  end."


def test_2025_without_any_citation_is_refused(tmp_path: Path) -> None:
    assert "case '7': answer: no citation" in refusal(tmp_path, "2025", {"case_id": "7", "answer": "A [1]."})


@pytest.mark.parametrize(("task", "limit"), [("2026-1", 15), ("2026-3", 75)])
def test_2026_texts_are_cut_by_white_space(tmp_path: Path, task: Task, limit: int) -> None:
    words = [f"w{n}" for n in range(limit + 1)]
    read = read_value(tmp_path, task, "\n".join(words))
    assert (read.question or read.answer) == " ".join(words[:limit])


@pytest.mark.parametrize("task", ["2026-1", "2026-3"])
def test_2026_texts_within_the_limit_keep_their_white_space(tmp_path: Path, task: Task) -> None:
    read = read_value(tmp_path, task, " Why |1|\n  this? ")
    assert (read.question or read.answer) == "Why |1|\n  this?"


def test_2026_1_and_3_fill_their_own_part(tmp_path: Path) -> None:
    assert read_value(tmp_path, "2026-1", "Why?") == Prediction("7", question="Why?")
    assert read_value(tmp_path, "2026-3", "So.") == Prediction("7", answer="So.")


def test_2026_2_is_a_set(tmp_path: Path) -> None:
    assert read_value(tmp_path, "2026-2", ["5", "1", "5"]) == Prediction("7", evidence=("5", "1"))
    assert read_value(tmp_path, "2026-2", []) == Prediction("7", evidence=())


def test_2026_4_merges_entries_of_one_answer_sentence(tmp_path: Path) -> None:
    read = read_value(
        tmp_path,
        "2026-4",
        [
            {"answer_id": "1", "evidence_id": ["3", "4"]},
            {"answer_id": "2", "evidence_id": []},
            {"answer_id": "1", "evidence_id": ["4", "5"], "score": 1},
        ],
    )
    assert read.links == (("1", "3"), ("1", "4"), ("1", "5"))
    assert read_value(tmp_path, "2026-4", []).links == ()


def test_cases_named_twice_stay_twice(tmp_path: Path) -> None:
    entries = [{"case_id": "7", "prediction": ["1"]}, {"case_id": "7", "prediction": ["2"]}]
    assert [one.evidence for one in read(tmp_path, "2026-2", *entries)] == [("1",), ("2",)]


def test_other_fields_are_passed_over(tmp_path: Path) -> None:
    entry = {"case_id": "7", "prediction": ["1"], "why": "so"}
    assert read(tmp_path, "2026-2", entry) == [Prediction("7", evidence=("1",))]


@pytest.mark.parametrize(
    ("task", "entry", "words"),
    [
        ("2026-2", ["7"], "entry 1: a list, not an object"),
        ("2026-2", {"prediction": []}, "entry 1: no field 'case_id'"),
        ("2026-2", {"case_id": 901, "prediction": []}, "entry 1: case_id is the number 901, not text"),
        ("2026-2", {"case_id": "7"}, "case '7': no field 'prediction'"),
        ("2025", {"case_id": "7"}, "case '7': no field 'answer'"),
        ("2025", {"case_id": "7", "answer": None}, "case '7': answer: null, not text"),
        ("2026-1", {"case_id": "7", "prediction": ["1"]}, "prediction: a list, not text"),
        ("2026-1", {"case_id": "7", "prediction": " \n"}, "prediction: it is empty"),
        ("2026-3", {"case_id": "7", "prediction": ""}, "prediction: it is empty"),
        ("2026-2", {"case_id": "7", "prediction": "1,2"}, "the text '1,2', not a list"),
        ("2026-2", {"case_id": "7", "prediction": ["1", 2]}, "prediction[1]: the number 2, not text"),
        ("2026-4", {"case_id": "7", "prediction": {}}, "prediction: an object, not a list"),
        ("2026-4", {"case_id": "7", "prediction": ["1"]}, "prediction[0]: the text '1', not an object"),
        ("2026-4", {"case_id": "7", "prediction": [{"answer_id": "1"}]}, "no field 'evidence_id'"),
        ("2026-4", {"case_id": "7", "prediction": [{"evidence_id": []}]}, "no field 'answer_id'"),
        (
            "2026-4",
            {"case_id": "7", "prediction": [{"answer_id": 1, "evidence_id": []}]},
            "prediction[0].answer_id: the number 1, not text",
        ),
        (
            "2026-4",
            {"case_id": "7", "prediction": [{"answer_id": "1", "evidence_id": "3"}]},
            "prediction[0].evidence_id: the text '3', not a list",
        ),
        (
            "2026-4",
            {"case_id": "7", "prediction": [{"answer_id": "1", "evidence_id": [True]}]},
            "prediction[0].evidence_id[0]: the truth value true, not text",
        ),
    ],
)
def test_what_the_loader_refuses(tmp_path: Path, task: Task, entry: object, words: str) -> None:
    assert words in refusal(tmp_path, task, entry)


def test_an_entry_of_the_other_year_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'answer' is the field of 2025: give another --task"):
        read(tmp_path, "2026-3", {"case_id": "7", "answer": "So."})


def test_a_zip_is_read_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("submission.json", json.dumps([{"case_id": "7", "prediction": ["1"]}]))
        archive.writestr("__MACOSX/._submission.json", "x")
    assert ARCHEHR["2026-2"].read(path) == [Prediction("7", evidence=("1",))]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        ARCHEHR["2025"].read(tmp_path / "none.json")
