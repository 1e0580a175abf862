"""Questions as BioASQ asks them, and their two kinds of answer: plain, frozen and free of file formats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

QuestionType = Literal["yesno", "factoid", "list", "summary"]
"""Form of an exact answer; a summary question has none."""

ExactAnswer = Literal["yes", "no"] | tuple[tuple[str, ...], ...]
"""Yes or no, or entries with their synonyms: of a factoid the best first, of a list in any order."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a document that helps to answer.

    Attributes:
        section: `title`, `abstract`, or a section of a full text; empty where unknown.
        begin: Offset in the section, in characters from 0; None where unknown.
        end: One past the last character.
    """

    document: str
    text: str
    section: str = ""
    begin: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class BiomedicalQuestion:
    """BioASQ's data for a question, in addition to its text.

    Attributes:
        type: None where the file leaves it out.
        documents: Ids of relevant documents, as experts chose them: what phase A is scored on.
        snippets: Chosen by experts too: phase B answers from them.
    """

    type: QuestionType | None
    documents: tuple[str, ...] = ()
    snippets: tuple[Snippet, ...] = ()


PUBMED = "http://www.ncbi.nlm.nih.gov/pubmed/"
"""Prefix of PubMed ids in BioASQ's files."""

_ADDRESS = re.compile(r"https?://(?:www\.ncbi\.nlm\.nih\.gov/pubmed|pubmed\.ncbi\.nlm\.nih\.gov)/\d+/?")


def document_id(address: str) -> str:
    """The last part of an address's path; an id without an address is returned unchanged.

    Returns:
        Empty where an address has no path.
    """
    stripped = address.strip()
    if "://" not in stripped:
        return stripped
    return urlsplit(stripped).path.rstrip("/").rpartition("/")[2]


def pubmed_address(document: str) -> str:
    """The address of a document by its id."""
    return f"{PUBMED}{document}"


def is_pubmed_address(text: str) -> bool:
    """Whether BioASQ accepts it as a document: PubMed's host, and a number."""
    return _ADDRESS.fullmatch(text) is not None
