"""An object with a key twice is refused wherever cases, keys and reviews are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases.formats.archehr_key import read_archehr_key
from cases.formats.json_questions import read_json
from cases.load import find_cases
from cases.records import InvalidCase
from runs.record.manifest import RunError
from runs.review.reviews import Reviews, make_review
from storage.errors import InputError
from storage.unique_keys import RepeatedKey, loads


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1, "a": 2}', 1),
        ('[\n{"a": 1},\n{"b": {"c": 1,\n "d": [{"c": 1, "e": 2,\n "c": 3}]}}]', 5),
        ('\ufeff\n\n{"é": 1, "é": 1}', 3),
    ],
)
def test_the_object_is_named_by_its_line(text: str, line: int) -> None:
    with pytest.raises(RepeatedKey, match=f"in one object, again in line {line};"):
        loads(text.removeprefix("\ufeff"))
    assert loads('{"a": {"b": 1}, "c": {"b": 2}}') == {"a": {"b": 1}, "c": {"b": 2}}


def test_files_of_cases_keys_and_reviews(tmp_path: Path) -> None:
    case = {"case_id": "k1", "narrative": "n", "question": "q", "sentences": ["s"]}
    (tmp_path / "cases.jsonl").write_text(
        json.dumps(case) + "\n" + '{"case_id": "k2", "case_id": "k3", "narrative": "n", "sentences": ["s"]}\n'
    )
    _, second = find_cases([tmp_path / "cases.jsonl"], [])
    assert isinstance(second, InvalidCase) and "line 2: duplicate key 'case_id'" in second.fault
    (tmp_path / "key.json").write_text('[\n{"case_id": "1",\n "answers": [], "answers": []}]')
    with pytest.raises(InputError, match=r"duplicate key 'answers' in one object, again in line 3;"):
        read_archehr_key(tmp_path / "key.json")
    with pytest.raises(InputError, match="duplicate key"):
        read_json(tmp_path / "key.json")
    line = {"case_id": "k1", "labels": {"1": "essential"}, "answer": None}
    content = make_review(line, reviewer="R", comment="c").model_dump_json()
    (tmp_path / "reviews.jsonl").write_text(content[:-1] + ',"comment":"d"}\n')
    with pytest.raises(RunError, match=r"reviews\.jsonl: line 1: duplicate key 'comment'"):
        Reviews(tmp_path).latest()
