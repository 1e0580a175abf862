from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases.errors import InputError
from cases.load import find_cases
from cases.records import Case, InvalidCase

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


def test_a_json_file_in_a_folder_is_no_case_file(tmp_path: Path) -> None:
    (tmp_path / "questions.json").write_text(json.dumps({"1": ENTRY}))
    with pytest.raises(InputError, match=r"no \.xml or \.jsonl file in this folder"):
        find_cases([tmp_path])
