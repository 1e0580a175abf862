"""PubMed's baseline files: `<PubmedArticle>` elements, cut out of the stream and parsed one by one.

So a bad record takes no other with it, memory stays flat, and the declarations at the top of the file, where
a document type would name entities and addresses, are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lxml import etree

from cases.documents import Document, Skipped
from cases.texts import one_line
from storage.files import MAX_LINE_BYTES, DamagedFile, Meter, pieces

_OPEN, _CLOSE = b"<PubmedArticle>", b"</PubmedArticle>"
_START = re.compile(rb"<PubmedArticle[\s>]")
_KEEP = len(_OPEN)
_YEAR = re.compile(r"(?<!\d)(1[5-9]\d\d|20\d\d)(?!\d)")
_POSITION = re.compile(r", line \d+, column \d+.*$")
_NO_LABEL = "UNLABELLED"


def read_pubmed_xml(path: Path, start: int, meter: Meter) -> Iterator[Document | Skipped]:
    """Read a file in its order, one document at a time.

    Raises:
        InputError: The file cannot be opened.
    """
    number = 0
    try:
        for number, cut in enumerate(_elements(path, meter), start=1):
            if number > start:
                yield _record(f"{path}: record {number}, line {cut.line}", cut)
    except DamagedFile as error:
        if number >= start:
            yield Skipped(f"{path}: after record {number}", str(error), "damaged file")
    else:
        if number == 0 and start == 0:
            yield Skipped(str(path), "no <PubmedArticle> in it", "unreadable")


class _Cut(NamedTuple):
    """The bytes of an element; not `whole` where the file or its length ended before its end tag."""

    content: bytes
    line: int
    whole: bool = True


def _elements(path: Path, meter: Meter) -> Iterator[_Cut]:
    rest, line = b"", 1
    for piece in pieces(path, meter):
        rest += piece
        done = 0
        while begin := _START.search(rest, done):
            end = rest.find(_CLOSE, begin.end())
            if end < 0:
                break
            line += rest.count(b"\n", done, begin.start())
            # An element that was never closed must not swallow the one behind it.
            torn = _START.search(rest, begin.end(), end)
            end = torn.start() if torn else end + len(_CLOSE)
            yield _Cut(rest[begin.start() : end], line, whole=torn is None)
            line += rest.count(b"\n", begin.start(), end)
            done = end
        keep = begin.start() if begin else max(done, len(rest) - _KEEP)
        line += rest.count(b"\n", done, keep)
        rest = rest[keep:]
        if len(rest) > MAX_LINE_BYTES:
            yield _Cut(b"", line, whole=False)
            line += rest.count(b"\n", 0, -_KEEP)
            rest = rest[-_KEEP:]
    if _START.match(rest):
        yield _Cut(rest, line, whole=False)


def _record(place: str, cut: _Cut) -> Document | Skipped:
    if not cut.whole:
        return Skipped(place, f"has no {_CLOSE.decode()}", "unreadable")
    # Without a document type nothing declares entities; a reference to one makes the record unreadable.
    parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False)
    try:
        article = etree.fromstring(cut.content, parser)
    except etree.XMLSyntaxError as error:
        return Skipped(place, _POSITION.sub("", error.msg or "not XML"), "unreadable")
    pmid = _text(article.find("MedlineCitation/PMID"))
    if not pmid:
        return Skipped(place, "no <PMID>", "unreadable")
    title, text = _text(article.find(".//ArticleTitle")), _abstract(article)
    if not (title or text):
        return Skipped(f"{place}, PMID {pmid}", "has neither title nor abstract", "empty")
    journal = article.find(".//Journal")
    return Document(
        id=pmid,
        title=title,
        text=text,
        year=_year(article),
        study_types=_study_types(article),
        source="" if journal is None else _text(journal.find("Title")),
    )


def _text(element: etree._Element | None) -> str:
    return "" if element is None else one_line("".join(map(str, element.itertext())))


def _abstract(article: etree._Element) -> str:
    """The labelled parts as one text; abstracts in other languages are elsewhere in a record."""
    parts = []
    for part in article.findall(".//Article/Abstract/AbstractText"):
        label = one_line(part.get("Label") or "")
        text = _text(part)
        if text:
            parts.append(f"{label}: {text}" if label and label != _NO_LABEL else text)
    return " ".join(parts)


def _year(article: etree._Element) -> int | None:
    """Year of the issue; for a text such as "1998 Dec-1999 Jan", the first year in it."""
    for place in (".//PubDate/Year", ".//PubDate/MedlineDate", ".//ArticleDate/Year"):
        if found := _YEAR.search(_text(article.find(place))):
            return int(found[1])
    return None


def _study_types(article: etree._Element) -> tuple[str, ...]:
    kinds = (_text(kind) for kind in article.findall(".//PublicationTypeList/PublicationType"))
    return tuple(dict.fromkeys(kind for kind in kinds if kind))
