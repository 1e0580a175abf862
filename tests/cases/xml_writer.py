"""Writes cases in the XML of the shared task, for tests that read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lxml import etree

from cases.records import Case


def write_archehr_xml(path: Path, cases: Iterable[Case]) -> None:
    with path.open("wb") as file:
        file.write(b"<annotations>\n")
        for case in cases:
            file.write(etree.tostring(_element(case)) + b"\n")
        file.write(b"</annotations>\n")


def _element(case: Case) -> etree._Element:
    root = etree.Element("case", id=case.id)
    _add(root, "clinical_specialty", case.specialty)
    _add(root, "patient_narrative", case.narrative)
    phrases = etree.SubElement(root, "patient_question")
    for phrase in case.phrases:
        _add(phrases, "phrase", phrase.text, id=phrase.id, start_char_index=phrase.start_char_index)
    _add(root, "clinician_question", case.question)
    _add(root, "note_excerpt", case.note)
    sentences = etree.SubElement(root, "note_excerpt_sentences")
    for one in case.sentences:
        paragraph = {"paragraph_id": one.paragraph_id, "start_char_index": one.start_char_index}
        _add(sentences, "sentence", one.text, id=one.id, **paragraph)
    return root


def _add(parent: etree._Element, name: str, text: str, **attributes: str | int | None) -> None:
    present = {key: str(value) for key, value in attributes.items() if value is not None}
    etree.SubElement(parent, name, present).text = f"\n{text}\n"
