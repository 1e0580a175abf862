from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases.formats.archehr_key import write_archehr_key
from cases.records import Case, Gold, Label, LabelSource, Sentence
from ranking.examples import Example
from ranking.readers.archehr import ArchehrOptions
from ranking.readers.load import load_examples
from tests.cases.xml_writer import write_archehr_xml
from tests.ranking.readers.files import fault, write_lines

LABELS: dict[str, Label] = {"1": "essential", "2": "supplementary", "3": "not-relevant"}
SENTENCES = tuple(Sentence(id_, f"Sentence {id_}.") for id_ in LABELS)
CASE = Case("a", "It hurts.\nWhy?", "Why does it hurt?", SENTENCES)


def write(folder: Path, *cases: Case, key: dict[str, LabelSource] | None = None) -> Path:
    path = folder / "cases.xml"
    write_archehr_xml(path, cases)
    if key is not None:
        gold = {id_: Gold(labels=LABELS, label_source=source) for id_, source in key.items()}
        write_archehr_key(folder / "cases_key.json", gold)
    return path


def test_essential_sentences_are_evidence(tmp_path: Path) -> None:
    assert load_examples([write(tmp_path, CASE, key={"a": "gold"})]) == [
        Example(
            id="a",
            query="Why does it hurt?",
            sentences=("Sentence 1.", "Sentence 2.", "Sentence 3."),
            labels=(True, False, False),
            document_id="a",
            group="a",
            sentence_ids=("1", "2", "3"),
        )
    ]


def test_weak_labels_are_marked(tmp_path: Path) -> None:
    (example,) = load_examples([write(tmp_path, CASE, key={"a": "weak"})])
    assert example.label_source == "weak"


def test_cases_without_labels_can_be_ranked(tmp_path: Path) -> None:
    (example,) = load_examples([write(tmp_path, CASE)])
    assert example.labels is None


def test_without_a_question_the_patients_words_ask(tmp_path: Path) -> None:
    (example,) = load_examples([write(tmp_path, Case("a", "It hurts.\nWhy?", "", SENTENCES))])
    assert example.query == "It hurts. Why?"


def test_one_key_labels_cases_of_several_files(tmp_path: Path) -> None:
    first = write(tmp_path, CASE)
    second = write_lines(tmp_path / "b.jsonl", {"case_id": "b", "question": "Why?", "sentences": ["It is."]})
    key = tmp_path / "all.json"
    write_archehr_key(key, {"a": Gold(labels=LABELS), "b": Gold(labels={"1": "essential"})})
    examples = load_examples([first, second], ArchehrOptions(keys=(key,)))
    assert [one.labels for one in examples] == [(True, False, False), (True,)]


def test_json_lines_of_cases_are_recognised(tmp_path: Path) -> None:
    line = {"case_id": "b", "question": "Why?", "sentences": ["It is."], "labels": {"1": "essential"}}
    assert load_examples([write_lines(tmp_path / "b.jsonl", line)])[0].labels == (True,)


def test_a_key_of_other_cases_is_refused(tmp_path: Path) -> None:
    assert "wrong key file" in fault(write(tmp_path, CASE, key={"z": "gold"}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"labels": {"9": "essential"}}, "line 1: labels: '9' is not the id of a sentence"),
        ({"sentences": []}, "case 'b': has no sentences"),
        ({"question": ""}, "case 'b': has no question and no narrative"),
    ],
)
def test_a_wrong_case_is_named(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    line = {"case_id": "b", "question": "Why?", "sentences": ["It is."]}
    path = tmp_path / "b.jsonl"
    path.write_text(json.dumps(line | changes))
    assert fault(path) == f"{path}: {told}"
