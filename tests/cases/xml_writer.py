"""Writes cases in the XML layout of the shared task, for tests that read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lxml import etree

from cases.records import Case
from storage.files import write_atomically

_ROOT = "annotations"
_INDENT = "    "
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_archehr_xml(path: Path, cases: Iterable[Case]) -> None:
    """Write `cases`; characters that XML 1.0 cannot hold are dropped."""
    write_atomically(path, _document(cases))


def _document(cases: Iterable[Case]) -> Iterator[bytes]:
    yield f"<?xml version='1.0' encoding='UTF-8'?>\n<{_ROOT}>\n".encode()
    for case in cases:
        element = _case_element(case)
        etree.indent(element, _INDENT, level=1)
        yield f"{_INDENT}{etree.tostring(element, encoding='unicode')}\n".encode()
    yield f"</{_ROOT}>\n".encode()


def _case_element(case: Case) -> etree._Element:
    root = etree.Element("case", id=_allowed(case.id))
    if case.specialty:
        _add(root, "clinical_specialty", case.specialty)
    _add(root, "patient_narrative", case.narrative)
    if case.phrases:
        phrases = etree.SubElement(root, "patient_question")
        for phrase in case.phrases:
            _add(
                phrases,
                "phrase",
                phrase.text,
                depth=3,
                id=phrase.id,
                start_char_index=phrase.start_char_index,
            )
    _add(root, "clinician_question", case.question)
    if case.note:
        _add(root, "note_excerpt", case.note)
    if case.sentences:
        sentences = etree.SubElement(root, "note_excerpt_sentences")
        for sentence in case.sentences:
            _add(
                sentences,
                "sentence",
                sentence.text,
                depth=3,
                id=sentence.id,
                paragraph_id=sentence.paragraph_id,
                start_char_index=sentence.start_char_index,
                length=len(sentence.text),
            )
    return root


def _add(
    parent: etree._Element, name: str, text: str, depth: int = 2, **attributes: str | int | None
) -> None:
    present = {key: _allowed(str(value)) for key, value in attributes.items() if value is not None}
    element = etree.SubElement(parent, name, present)
    element.text = f"\n{_allowed(text)}\n{_INDENT * depth}"


def _allowed(text: str) -> str:
    return _NOT_XML.sub("", text)
