from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases.formats.json_questions import pubmedqa_as_bioasq
from cases.load import find_cases
from cases.records import Case, InvalidCase
from storage.errors import InputError

ENTRY = {
    "QUESTION": "Does mint tea help?",
    "CONTEXTS": ["quagga"],
    "LONG_ANSWER": "quagga",
    "YEAR": "2007",
    "final_decision": "maybe",
}


def read(folder: Path, content: Any) -> list[Case | InvalidCase]:
    path = folder / "questions.json"
    path.write_text(json.dumps(content))
    return list(find_cases([path]))


def test_a_question_is_read_with_its_year_and_decision(tmp_path: Path) -> None:
    (case,) = read(tmp_path, {"123": ENTRY})
    assert isinstance(case, Case)
    assert (case.id, case.question, case.as_of, case.gold.verdict) == (
        *("123", "Does mint tea help?"),
        *(2007, "unknown"),
    )


def test_what_a_question_was_made_from_never_enters_a_case(tmp_path: Path) -> None:
    assert "quagga" not in repr(read(tmp_path, {"123": ENTRY}))


@pytest.mark.parametrize("year", [None, ""])
def test_a_question_without_year_or_decision_is_a_case(tmp_path: Path, year: object) -> None:
    (case,) = read(tmp_path, {"1": {"QUESTION": "Does it?", "YEAR": year}})
    assert isinstance(case, Case)
    assert (case.as_of, case.gold.verdict) == (None, None)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({**ENTRY, "QUESTION": " "}, "QUESTION"),
        ({**ENTRY, "final_decision": "perhaps"}, "final_decision"),
        ({**ENTRY, "YEAR": "MMVII"}, "YEAR"),
        ([], "not a JSON object"),
    ],
)
def test_a_bad_question_does_not_stop_the_others(tmp_path: Path, entry: object, fault: str) -> None:
    bad, good = read(tmp_path, {"bad": entry, "good": ENTRY})
    assert isinstance(bad, InvalidCase) and fault in bad.fault and "questions.json" in bad.fault
    assert isinstance(good, Case)


@pytest.mark.parametrize("content", [[], {}, {"cases": {"1": {"labels": []}}}, [{"case_id": "1"}]])
def test_a_file_of_something_else_is_refused_with_what_it_may_be(tmp_path: Path, content: object) -> None:
    with pytest.raises(InputError, match="PubMedQA"):
        read(tmp_path, content)


def test_a_folder_gives_the_questions_that_its_files_give(tmp_path: Path) -> None:
    bioasq = {"questions": [{"id": "2", "type": "yesno", "body": "Does it?"}]}
    (tmp_path / "a.json").write_text("\ufeff" + json.dumps({"1": ENTRY}))
    (tmp_path / "b.json").write_text(json.dumps(bioasq, indent=1))
    named = [*find_cases([tmp_path / "a.json", tmp_path / "b.json"])]
    (tmp_path / "c_key.json").write_text(json.dumps([{"case_id": "1"}]))
    (tmp_path / "settings.json").write_text(json.dumps({"colour": "red"}))
    assert [*find_cases([tmp_path])] == named and len(named) == 2


def converted(folder: Path, content: Any) -> list[Case]:
    """Read what a file becomes as questions of BioASQ."""
    path = folder / "pqal.json"
    path.write_text(json.dumps(content))
    made = pubmedqa_as_bioasq(path)
    return [
        case for case in read(folder, {"questions": list(made.questions.values())}) if isinstance(case, Case)
    ]


def test_a_yes_no_question_becomes_one_of_bioasq(tmp_path: Path) -> None:
    (case,) = converted(tmp_path, {"123": {**ENTRY, "final_decision": "no", "LONG_ANSWER": "It does not."}})
    assert case.biomedical is not None
    assert (case.id, case.biomedical.type, case.gold.exact_answer) == ("123", "yesno", "no")
    assert [snippet.text for snippet in case.biomedical.snippets] == ["quagga"]
    assert case.biomedical.documents == ("123",)
    # The conclusion is a reference and no snippet.
    assert case.gold.ideal_answers == ("It does not.",)


def test_maybe_and_questions_without_contexts_are_left_out_and_counted(tmp_path: Path) -> None:
    decided = {**ENTRY, "final_decision": "yes"}
    path = tmp_path / "pqal.json"
    path.write_text(json.dumps({"1": ENTRY, "2": {**decided, "CONTEXTS": []}, "3": decided}))
    made = pubmedqa_as_bioasq(path)
    assert (list(made.questions), made.undecided, made.unsupported) == (["3"], 1, 1)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"questions": []}, "BioASQ already"),
        ({"1": {"QUESTION": ""}}, "1: QUESTION"),
        ({"1": {**ENTRY, "CONTEXTS": "one"}}, "1: CONTEXTS"),
        ([], "no question of PubMedQA"),
    ],
)
def test_what_cannot_become_one_is_one_line(content: Any, fault: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=fault):
        converted(tmp_path, content)


def test_an_id_that_is_half_a_surrogate_pair_is_a_fault_of_its_question_alone(tmp_path: Path) -> None:
    first, second, third = read(tmp_path, {"\ud800": ENTRY, "2": ENTRY, "a\ud83d": 5})
    assert isinstance(first, InvalidCase) and isinstance(second, Case) and isinstance(third, InvalidCase)
    assert (first.id, second.id, third.id) == ("question 1", "2", "question 3")
    assert first.fault.encode() and third.fault.encode()
