from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.formats.plain_jsonl import read_jsonl, write_jsonl
from cases.records import Case, Gold, Intent, InvalidCase, Sentence
from storage.errors import InputError
from tests.cases.strategies import jsonl_cases


def read(tmp_path: Path, *lines: object) -> list[Case | InvalidCase]:
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return list(read_jsonl(path))


def fault(tmp_path: Path, line: object) -> str:
    (case,) = read(tmp_path, line)
    assert isinstance(case, InvalidCase)
    return case.fault


def test_full_line(tmp_path: Path) -> None:
    line = {
        "case_id": "1",
        "narrative": " I fell.\n\nAgain. ",
        "question": "Why did\nhe fall?",
        "sentences": [{"id": 4, "text": "Low\nsodium."}, {"id": "b", "text": "Stable."}],
        "specialty": "Geriatrics",
        "labels": {"4": "essential"},
        "answer": "Low sodium.",
        "intent": {"primary": "pathophysiology_explanation", "secondary": "malignancy_concern"},
    }
    assert read(tmp_path, line) == [
        Case(
            id="1",
            narrative="I fell.\n\nAgain.",
            question="Why did he fall?",
            sentences=(Sentence("4", "Low sodium."), Sentence("b", "Stable.")),
            specialty="Geriatrics",
            gold=Gold(
                {"4": "essential"},
                "Low sodium.",
                None,
                Intent("pathophysiology_explanation", "malignancy_concern"),
            ),
        )
    ]


def test_plain_sentences_are_numbered_from_one(tmp_path: Path) -> None:
    (case,) = read(tmp_path, {"case_id": 3, "sentences": ["A.", "B."]})
    assert case == Case("3", "", "", (Sentence("1", "A."), Sentence("2", "B.")))


def test_byte_order_mark_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"case_id": "1"}\r\n\r\n  \n{"case_id": "2"}')
    assert [case.id for case in read_jsonl(path)] == ["1", "2"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"case_id": "1",}', "line 1, column 17: "),
        ('["case_id"]', "line 1: not a JSON object"),
        ({"narrative": "I fell."}, "line 1: case_id: is missing"),
        (
            {"case_id": "1", "naratives": "I fell."},
            "line 1: naratives: unknown field; did you mean 'narrative'?",
        ),
        ({"case_id": "1", "zzz": 1}, "line 1: zzz: unknown field; known are case_id, narrative, "),
        (
            {"case_id": "1", "sentences": [{"id": "1", "txt": "A.", "text": "A."}]},
            "line 1: sentences[0].txt: unknown field; did you mean 'text'?",
        ),
        (
            {"case_id": "1", "intent": {"primary": "malignancy_concern", "risklevel": "low"}},
            "intent.risklevel: unknown field; did you mean 'risk_level'?",
        ),
        ({"case_id": "1", "narrative": 3}, "line 1: narrative: 3 should be a valid string"),
        (
            {"case_id": "1", "narrative": "\ud800"},
            "line 1: narrative: character 1 is half of a surrogate pair",
        ),
        ({"case_id": "1", "sentences": "A. B."}, "line 1: sentences: 'A. B.' should be a valid list"),
        ({"case_id": "1", "sentences": ["A.", " \n"]}, "line 1: sentences[1].text: is empty"),
        ({"case_id": "1", "sentences": [{"text": "A."}]}, "line 1: sentences[0].id: is missing"),
        (
            {"case_id": "1", "sentences": [{"id": "2", "text": "A."}, {"id": 2, "text": "B."}]},
            "line 1: sentence id '2' is used twice",
        ),
        (
            {"case_id": "1", "sentences": ["A."], "labels": {"2": "essential"}},
            "line 1: labels: '2' is not the id of a sentence",
        ),
        (
            {"case_id": "1", "sentences": ["A."], "labels": {"1": "vital"}},
            "line 1: labels.1: 'vital' is not one of essential, supplementary, not-relevant",
        ),
    ],
)
def test_fault(tmp_path: Path, line: object, said: str) -> None:
    assert said in fault(tmp_path, line)


def test_two_faults_are_counted(tmp_path: Path) -> None:
    assert fault(tmp_path, {"case_id": "1", "question": 1, "answer": 2}).endswith("(and 1 more)")


def test_invalid_case_keeps_its_id(tmp_path: Path) -> None:
    assert [case.id for case in read(tmp_path, {"case_id": 9, "answer": 2}, "{")] == ["9", "line 2"]


def test_lines_after_a_bad_one_are_read(tmp_path: Path) -> None:
    assert [case.id for case in read(tmp_path, "{", {"case_id": "2"})] == ["line 1", "2"]


def test_deep_nesting_is_a_fault(tmp_path: Path) -> None:
    assert "cannot be read as JSON" in fault(tmp_path, "[" * 200_000)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings_are_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"case_id": "\u00e4"}', encoding=encoding)
    with pytest.raises(InputError, match=r"line 1, byte .* not UTF-8"):
        list(read_jsonl(path))


def test_file_without_cases(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no case in it"):
        read(tmp_path, "")


@given(st.lists(jsonl_cases(), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, cases: list[Case]) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "cases.jsonl"
    write_jsonl(path, cases)
    assert list(read_jsonl(path)) == cases


def test_long_narrative_and_many_sentences(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    many = tuple(Sentence(str(n), f"Finding {n}.") for n in range(1, 5_001))
    case = Case("1", "I worry. " * 120_000 + "Why?", "", many)
    write_jsonl(path, [case])
    assert list(read_jsonl(path)) == [case]


def test_weak_labels_are_read_from_a_line(tmp_path: Path) -> None:
    line = {"case_id": "1", "sentences": ["A."], "labels": {"1": "essential"}, "label_source": "weak"}
    (case,) = read(tmp_path, line)
    assert isinstance(case, Case)
    assert case.gold == Gold({"1": "essential"}, label_source="weak")


def test_a_question_of_yes_or_no_has_a_year_and_a_verdict(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"case_id": "q1", "question": "Does zinc help?", "as_of": 2015, "verdict": "unknown"}\n')
    (case,) = read_jsonl(path)
    assert isinstance(case, Case)
    assert (case.as_of, case.gold.verdict) == (2015, "unknown")
    write_jsonl(path, [case])
    assert list(read_jsonl(path)) == [case]


@pytest.mark.parametrize("case_id", ["\ud800", "a\udfff", " \ud83d ", True, None, ["1"], 1.5, "", " "])
def test_a_case_whose_id_cannot_be_one_goes_by_its_line(tmp_path: Path, case_id: object) -> None:
    first, second = read(tmp_path, {"case_id": case_id}, {"case_id": "2"})
    assert isinstance(first, InvalidCase)
    assert (first.id, second.id) == ("line 1", "2")
    assert first.fault.startswith("line 1: case_id: ") and first.fault.encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"narrative": "a\ud800"},
        {"question": "\udfff"},
        {"sentences": ["A.", "\ud83d"]},
        {"sentences": [{"id": "\ud83d", "text": "A."}]},
        {"answer": "\ud83d"},
        {"specialty": "\ud83d"},
        {"sentences": ["A."], "labels": {"\ud83d": "essential"}},
        {"\ud83d": "A."},
        {"label_source": "\ud83d"},
        {"intent": {"primary": "\ud83d"}},
    ],
)
def test_half_a_surrogate_pair_anywhere_is_a_fault_of_its_case_alone(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    first, second = read(tmp_path, {"case_id": "1", **fields}, {"case_id": "2"})
    assert isinstance(first, InvalidCase) and isinstance(second, Case)
    assert first.id == "1"
    assert first.fault.encode()
