from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from cases.submissions.archehr import KnownIds
from cases.submissions.tasks import ARCHEHR
from storage.errors import InputError

SAMPLES = Path(str(resources.files("cases").joinpath("samples")))


def write_key(path: Path, *entries: object) -> Path:
    path.write_text(json.dumps(entries))
    return path


def write_xml(path: Path, *case_ids: str) -> Path:
    note = "<note_excerpt_sentences><sentence id='1'>A.</sentence></note_excerpt_sentences>"
    cases = "".join(f"<case id='{id_}'>{note}</case>" for id_ in case_ids)
    path.write_text(f"<annotations>{cases}</annotations>")
    return path


def test_a_key_gives_cases_and_ids(tmp_path: Path) -> None:
    entry = {
        "case_id": "7",
        "answers": [{"sentence_id": "3", "relevance": "not-relevant"}],
        "clinician_answer_sentences": [{"id": "a", "text": "So."}],
    }
    key = write_key(tmp_path / "key.json", entry)
    assert ARCHEHR["2026-2"].read_expected([key], []) == {"7": KnownIds(frozenset({"3"}), frozenset({"a"}))}


def test_a_key_without_labels_takes_ids_from_the_note(tmp_path: Path) -> None:
    cases = write_xml(tmp_path / "cases.xml", "7", "8")
    key = write_key(tmp_path / "key.json", {"case_id": "7"})
    assert ARCHEHR["2026-2"].read_expected([key], [cases]) == {"7": KnownIds(frozenset({"1"}))}
    assert ARCHEHR["2026-2"].read_expected([key], []) == {"7": KnownIds()}


def test_the_cases_of_subtask_1_are_those_of_the_xml(tmp_path: Path) -> None:
    cases = write_xml(tmp_path / "cases.xml", "7", "8")
    key = write_key(tmp_path / "key.json", {"case_id": "7"})
    assert set(ARCHEHR["2026-1"].read_expected([key], [cases])) == {"7", "8"}


def test_a_case_that_cannot_be_read_has_no_ids(tmp_path: Path) -> None:
    cases = write_xml(tmp_path / "cases.xml", "7")
    cases.write_text(cases.read_text().replace(" id='1'", ""))
    assert ARCHEHR["2026-1"].read_expected([], [cases]) == {"7": KnownIds()}


def test_the_key_beside_the_cases_is_found() -> None:
    expected = ARCHEHR["2026-2"].read_expected([], [SAMPLES / "batch.xml"])
    assert expected["101"].answer_sentences == frozenset({"1", "2", "3"})
    assert len(expected) == 12


def test_several_keys_add_up_and_may_not_overlap(tmp_path: Path) -> None:
    keys = [write_key(tmp_path / f"{id_}.json", {"case_id": id_}) for id_ in "78"]
    assert set(ARCHEHR["2026-2"].read_expected(keys, [])) == {"7", "8"}
    with pytest.raises(InputError, match="case '7' is in another key too"):
        ARCHEHR["2026-2"].read_expected([keys[0], write_key(tmp_path / "again.json", {"case_id": "7"})], [])
