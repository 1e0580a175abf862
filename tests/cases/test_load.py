from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from cases.formats.archehr_key import write_archehr_key
from cases.formats.note_files import NOTE_SUFFIXES
from cases.formats.plain_jsonl import write_jsonl
from cases.formats.tables import TABLE_SUFFIXES
from cases.load import CASE_SUFFIXES, CaseSource, SourceSummary, find_cases
from cases.records import AnswerSentence, Case, Gold, Intent, InvalidCase, Sentence
from storage.errors import InputError
from tests.cases.xml_writer import write_archehr_xml
from tests.evigraph import ROOT

NOTE = (Sentence("1", "Low sodium."), Sentence("2", "Stable."))


def case(case_id: str, gold: Gold | None = None) -> Case:
    return Case(case_id, "I fell.", "Why?", NOTE, gold=gold or Gold())


def xml(path: Path, *case_ids: str) -> Path:
    write_archehr_xml(path, map(case, case_ids))
    return path


def key(path: Path, **labels: str) -> Path:
    entries = [
        {"case_id": case_id.strip("_"), "answers": [{"sentence_id": sentence_id, "relevance": "essential"}]}
        for case_id, sentence_id in labels.items()
    ]
    path.write_text(json.dumps(entries))
    return path


def refused(*inputs: Path, keys: tuple[Path, ...] = ()) -> InputError:
    with pytest.raises(InputError) as caught:
        find_cases(inputs, keys).check()
    return caught.value


def test_folder_is_taken_by_name(tmp_path: Path) -> None:
    for name in ("b.xml", "a.XML", "._c.xml"):
        xml(tmp_path / name, name)
    write_jsonl(tmp_path / "c.jsonl", [case("c")])
    (tmp_path / "d.xml").mkdir()
    (tmp_path / "notes.txt").touch()
    assert [path.name for path in find_cases([tmp_path]).paths] == ["a.XML", "b.xml", "c.jsonl"]


def test_files_keep_their_given_order(tmp_path: Path) -> None:
    first, second = xml(tmp_path / "z.xml", "9"), xml(tmp_path / "a.xml", "10", "2")
    assert [case.id for case in find_cases([first, second])] == ["9", "10", "2"]


def test_file_given_twice_is_read_once(tmp_path: Path) -> None:
    path, other = xml(tmp_path / "b.xml", "1"), xml(tmp_path / "a.xml", "2")
    assert find_cases([path, tmp_path]).paths == (path, other)


def test_missing_path_proposes_the_nearest_name(tmp_path: Path) -> None:
    xml(tmp_path / "cases.xml", "1")
    error = refused(tmp_path / "case.xml")
    assert error.fault == "no such file or folder"
    assert error.remedy == f"Did you mean {tmp_path / 'cases.xml'}?"


def test_missing_path_far_from_every_name_has_no_remedy(tmp_path: Path) -> None:
    assert refused(tmp_path / "none" / "case.xml").remedy == ""


def test_missing_key(tmp_path: Path) -> None:
    assert (
        refused(xml(tmp_path / "a.xml", "1"), keys=(tmp_path / "k.json",)).fault == "no such file or folder"
    )


def test_unknown_suffix(tmp_path: Path) -> None:
    path = tmp_path / "cases.log"
    path.write_text("id\n")
    error = refused(path)
    assert error.fault == ".log is not the suffix of a case file"
    assert error.remedy.startswith("Case files end in .xml")


@pytest.mark.parametrize("name", ["my notes.csv", "note.txt", "note.docx"])
def test_notes_given_as_cases_name_the_command_that_makes_cases_of_them(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("id\n")
    made = shlex.join([str(path), "--out", path.with_suffix(".jsonl").name])
    assert refused(path).remedy == f"Make cases of it: evigraph cases import {made}"
    assert "Make cases of its notes" in refused(tmp_path).remedy


def test_a_key_that_is_given_as_cases_is_told_from_them(tmp_path: Path) -> None:
    assert "keys are given with --key" in refused(key(tmp_path / "key.json", _1="1")).remedy


def test_folder_without_cases(tmp_path: Path) -> None:
    assert refused(tmp_path).fault == "no .xml, .jsonl, or .json of questions in this folder"


def test_key_beside_xml_is_found(tmp_path: Path) -> None:
    path = xml(tmp_path / "dev.xml", "1")
    key(tmp_path / "dev_key.json", _1="2")
    assert list(find_cases([path])) == [case("1", Gold(labels={"2": "essential"}))]


def test_given_key_replaces_the_one_beside(tmp_path: Path) -> None:
    path = xml(tmp_path / "dev.xml", "1")
    key(tmp_path / "dev_key.json", _1="2")
    own = key(tmp_path / "own.json", _1="1")
    assert find_cases([path], [own]).keys == (own,)


def test_case_without_key_entry_is_unlabelled(tmp_path: Path) -> None:
    source = find_cases([xml(tmp_path / "dev.xml", "1", "2")], [key(tmp_path / "k.json", _2="1")])
    assert [case.gold.labels for case in source if isinstance(case, Case)] == [None, {"1": "essential"}]


def test_key_adds_to_what_a_line_says(tmp_path: Path) -> None:
    path, given = tmp_path / "a.jsonl", tmp_path / "k.json"
    sentences = (AnswerSentence("1", "So.", ("1",)),)
    write_jsonl(path, [case("1", Gold(labels={"1": "essential"}, answer="Old."))])
    write_archehr_key(given, {"1": Gold(answer="So.", answer_sentences=sentences)})
    assert list(find_cases([path], [given])) == [case("1", Gold({"1": "essential"}, "So.", sentences))]


def test_summary(tmp_path: Path) -> None:
    path = tmp_path / "dev.xml"
    path.write_text('<annotations><case id="1"/><case/><case id="3"/></annotations>')
    sibling = key(tmp_path / "dev_key.json", _1="1")
    digest = hashlib.sha256(path.read_bytes() + sibling.read_bytes()).hexdigest()
    assert find_cases([path]).check() == SourceSummary(cases=2, invalid=1, sha256=digest, selected=3)


def test_invalid_case_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("[]")
    assert list(find_cases([path])) == [InvalidCase("line 1", f"{path}: line 1: not a JSON object")]


def test_nameless_cases_of_several_files_keep_apart(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("{")
    source = find_cases([tmp_path])
    assert [case.id for case in source] == [f"{tmp_path / name} line 1" for name in ("a.jsonl", "b.jsonl")]
    assert source.check().invalid == 2


def test_malformed_file(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text('<annotations><case id="1"/>')
    assert "Premature end" in refused(path).fault


def test_duplicate_case_id_names_both_places(tmp_path: Path) -> None:
    first, second = xml(tmp_path / "a.xml", "8", "7"), xml(tmp_path / "b.xml", "7")
    error = refused(first, second)
    assert error.path == str(second)
    assert error.fault == f"case id '7' is used twice: by case 1 of this file and by case 2 of {first}"


def test_wrong_key(tmp_path: Path) -> None:
    path, wrong = xml(tmp_path / "a.xml", "8", "7"), key(tmp_path / "k.json", _1="1")
    assert refused(path, keys=(wrong,)).fault == (
        "wrong key file: none of its 1 case ids (such as '1') "
        "is among the 2 case ids (such as '8') of the input"
    )


def test_key_that_is_partly_of_other_cases_is_taken(tmp_path: Path) -> None:
    path, wide = xml(tmp_path / "a.xml", "8"), key(tmp_path / "k.json", _1="1", _8="1")
    assert find_cases([path], [wide]).check().cases == 1


def test_key_with_labels_of_unknown_sentences(tmp_path: Path) -> None:
    path, wrong = xml(tmp_path / "a.xml", "8"), key(tmp_path / "k.json", _8="9")
    assert refused(path, keys=(wrong,)).fault == f"case '8': labels sentence '9', which {path} does not have"


def test_labels_of_a_case_without_note_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    write_archehr_xml(path, [Case("8", "I fell.", "", ())])
    assert find_cases([path], [key(tmp_path / "k.json", _8="9")]).check().cases == 1


def test_case_in_two_keys(tmp_path: Path) -> None:
    path, one, two = (
        xml(tmp_path / "a.xml", "1"),
        key(tmp_path / "k.json", _1="1"),
        key(tmp_path / "l.json", _1="1"),
    )
    assert refused(path, keys=(one, two)).fault == f"case '1' is in {one} too"


def test_source_can_be_read_again(tmp_path: Path) -> None:
    source = CaseSource((xml(tmp_path / "a.xml", "1"),))
    assert list(source) == list(source)


WEAK = Gold({"2": "essential"}, answer="So.", label_source="weak")
BY_PEOPLE = Gold({"1": "essential"}, answer="So.")


def keys(folder: Path, **gold: Gold) -> tuple[Path, ...]:
    """One key file for each name, all of the case "1"."""
    for name, entry in gold.items():
        write_archehr_key(folder / f"{name}.json", {"1": entry})
    return tuple(folder / f"{name}.json" for name in gold)


def test_labels_of_people_are_not_replaced_by_weak_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [case("1", BY_PEOPLE)])
    assert list(find_cases([path], keys(tmp_path, weak=WEAK))) == [case("1", BY_PEOPLE)]


def test_weak_labels_are_replaced_by_those_of_people(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [case("1", WEAK)])
    assert list(find_cases([path], keys(tmp_path, people=BY_PEOPLE))) == [case("1", BY_PEOPLE)]


@pytest.mark.parametrize("names", [("weak", "answers"), ("answers", "weak")])
def test_a_weak_key_joins_a_key_without_labels(tmp_path: Path, names: tuple[str, str]) -> None:
    intent = Intent("malignancy_concern")
    gold = {"weak": WEAK, "answers": Gold(answer="So.", intent=intent)}
    source = find_cases(
        [xml(tmp_path / "a.xml", "1")], keys(tmp_path, **{name: gold[name] for name in names})
    )
    assert source.check().cases == 1
    assert list(source) == [case("1", replace(WEAK, intent=intent))]


@pytest.mark.parametrize("other", [WEAK, BY_PEOPLE])
def test_labels_of_two_keys_are_refused(tmp_path: Path, other: Gold) -> None:
    given = keys(tmp_path, weak=WEAK, other=other)
    assert "is in" in refused(xml(tmp_path / "a.xml", "1"), keys=given).fault


NAMED = '{"case_id": "line 2", "sentences": ["A."]}'


@pytest.mark.parametrize("last", ["", '{"case_id": "line 2 (without an id)", "sentences": ["A."]}'])
def test_a_case_may_be_called_as_a_broken_line_is(tmp_path: Path, last: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f'{NAMED}\n{{"case_id": broken\n{{"case_id": "b", "sentences": ["A."]}}\n{last}\n')
    source = find_cases([path])
    summary = source.check()
    assert (summary.cases, summary.invalid) == (3 if last else 2, 1)
    found = list(source)
    ids = [case.id for case in found]
    assert len(set(ids)) == len(ids)
    assert ids[0] == "line 2" and ids[1].startswith("line 2 (without an id)")
    assert [isinstance(case, InvalidCase) for case in found[:3]] == [False, True, False]
    # The same names each time, or a resumed run would not find them.
    assert [case.id for case in source] == ids


def test_a_broken_line_keeps_its_name_where_nobody_else_has_it(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"case_id": "line 3"}\n{\n')
    assert [case.id for case in find_cases([path])] == ["line 3", "line 2"]


def test_two_cases_of_one_id_are_refused_still(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{NAMED}\n{NAMED}\n{{\n")
    assert "'line 2' is used twice" in refused(path).fault


def test_the_table_of_files_in_the_documentation_names_every_suffix() -> None:
    lines = (ROOT / "docs" / "cases.md").read_text().splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| `.")]
    files = [(re.findall(r"`(\.\w+)`", name), cells) for name, *cells in rows]
    run, key, notes = (
        {suffix for suffixes, row in files for suffix in suffixes if row[column].strip()}
        for column in range(3)
    )
    assert run == {*CASE_SUFFIXES} and notes == {*NOTE_SUFFIXES}
    assert key == {*CASE_SUFFIXES, *TABLE_SUFFIXES}
