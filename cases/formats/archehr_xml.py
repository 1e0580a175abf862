"""ArchEHR-QA XML: the cases of the shared task, read one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from lxml import etree

from cases.records import Case, InvalidCase, Phrase, Sentence
from cases.texts import one_line
from storage.errors import InputError
from storage.files import opened

_ROOT = "annotations"
_CHUNK = 64 * 1024
_POSITION = re.compile(r", line \d+, column \d+$")


def read_archehr_xml(path: Path) -> Iterator[Case | InvalidCase]:
    """Read the cases of `path` in file order, holding one at a time.

    Raises:
        InputError: the file is not well-formed XML, has a document type declaration, or is not a list of
            cases. Cases before the fault have been handed out by then.
    """
    with opened(path) as file:
        _check_start(path, file)
        file.seek(0)
        events = etree.iterparse(
            file,
            events=("end",),
            tag="case",
            resolve_entities="internal",  # none can be declared; False would misplace the fault of &nbsp;
            no_network=True,
            load_dtd=False,
            huge_tree=True,
            remove_comments=True,
            remove_pis=True,
        )
        empty = True
        try:
            for _, element in events:
                parent = element.getparent()
                if parent is None or parent.getparent() is not None:
                    continue  # an element of that name deeper inside a case
                yield _case(element)
                empty = False
                element.clear()
                while element.getprevious() is not None:
                    del parent[0]
        except etree.XMLSyntaxError as error:
            raise _malformed(path, error) from error
    if empty:
        raise InputError(path, "no <case> in it", f"Put each case into a <case id='...'> within <{_ROOT}>")


class _Start:
    """A parser target that notes the root's name and refuses document types, hence entity bombs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root: str | None = None

    def doctype(self, *_: object) -> None:
        remedy = "Remove the <!DOCTYPE ...> at its top: entities are not expanded"
        raise InputError(self.path, "has a document type declaration", remedy)

    def start(self, tag: str | bytes, attrib: Mapping[str | bytes, str | bytes]) -> None:
        self.root = self.root or str(tag)

    def end(self, tag: str | bytes) -> None:
        """Required by the parser."""

    def data(self, data: str | bytes) -> None:
        """Required by the parser."""

    def comment(self, text: str | bytes) -> None:
        """Required by the parser."""

    def close(self) -> None:
        """Required by the parser."""


def _check_start(path: Path, file: BinaryIO) -> None:
    start = _Start(path)
    parser = etree.XMLParser(target=start, resolve_entities=False, no_network=True, huge_tree=True)
    try:
        while start.root is None and (chunk := file.read(_CHUNK)):
            parser.feed(chunk)
    except etree.XMLSyntaxError as error:
        if start.root is None:
            raise _malformed(path, error) from error
    if start.root not in (None, _ROOT):
        raise InputError(path, f"its root is <{start.root}>", f"The root of a case file is <{_ROOT}>")


def _malformed(path: Path, error: etree.XMLSyntaxError) -> InputError:
    line, column = error.position
    reason = _POSITION.sub("", error.msg or "not XML")
    remedy = "Correct the file: nothing after this place can be read"
    return InputError(path, f"line {max(line, 1)}, column {max(column, 1)}: {reason}", remedy)


class _CaseFault(Exception):
    """One case is unusable; reading continues with the others."""

    def __init__(self, element: etree._Element, fault: str) -> None:
        super().__init__(f"line {element.sourceline}: {fault}")


def _case(element: etree._Element) -> Case | InvalidCase:
    case_id = (element.get("id") or "").strip()
    if not case_id:
        place = f"line {element.sourceline}"
        return InvalidCase(place, f"{place}: case without id")
    try:
        return Case(
            id=case_id,
            narrative=_text(element, "patient_narrative"),
            question=one_line(_text(element, "clinician_question")),
            sentences=_sentences(element),
            phrases=_phrases(element),
            specialty=one_line(_text(element, "clinical_specialty")),
            note=_text(element, "note_excerpt"),
        )
    except _CaseFault as error:
        return InvalidCase(case_id, str(error))


def _text(case: etree._Element, name: str) -> str:
    child = case.find(name)
    return "" if child is None else _content(child).strip()


def _content(element: etree._Element) -> str:
    return "".join(map(str, element.itertext()))


def _sentences(case: etree._Element) -> tuple[Sentence, ...]:
    sentences: dict[str, Sentence] = {}
    place = "before any other"
    for element in case.iterfind("note_excerpt_sentences/sentence"):
        sentence_id = (element.get("id") or "").strip()
        text = one_line(_content(element))
        if not sentence_id:
            raise _CaseFault(element, f"sentence without id {place}")
        if sentence_id in sentences:
            raise _CaseFault(element, f"sentence id {sentence_id!r} is used twice")
        if not text:
            raise _CaseFault(element, f"sentence {sentence_id!r} has no text")
        paragraph_id = (element.get("paragraph_id") or "").strip() or None
        sentences[sentence_id] = Sentence(sentence_id, text, paragraph_id, _start_index(element))
        place = f"after sentence {sentence_id!r}"
    return tuple(sentences.values())


def _phrases(case: etree._Element) -> tuple[Phrase, ...]:
    elements = case.iterfind("patient_question/phrase")
    phrases = (
        Phrase((element.get("id") or "").strip() or str(number), text, _start_index(element))
        for number, element in enumerate(elements)
        if (text := one_line(_content(element)))
    )
    return tuple(phrases)


def _start_index(element: etree._Element) -> int | None:
    value = (element.get("start_char_index") or "").strip()
    if not value:
        return None
    try:
        return int(value)
    except ValueError:
        raise _CaseFault(element, f"start_char_index {value!r} is not a whole number") from None
