"""Questions as BioASQ asks them, and their two kinds of answer: plain, frozen and free of file formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QuestionType = Literal["yesno", "factoid", "list", "summary"]
"""What an exact answer looks like; a summary question has none."""

ExactAnswer = Literal["yes", "no"] | tuple[tuple[str, ...], ...]
"""Yes or no, or entries with their synonyms: of a factoid the best first, of a list in any order."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a document that helps to answer.

    Attributes:
        document: Id of the document.
        text: As it stands there.
        section: `title`, `abstract`, or a section of a full text; empty where nobody recorded it.
        begin: Offset in the section, in characters from 0; None where nobody recorded it.
        end: One past the last character.
    """

    document: str
    text: str
    section: str = ""
    begin: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class BiomedicalQuestion:
    """What BioASQ gives with a question, beside its text.

    Attributes:
        type: None where the file leaves it out.
        documents: Ids of relevant documents, as experts chose them: what phase A is scored on.
        snippets: Chosen by experts too: phase B answers from them.
    """

    type: QuestionType | None
    documents: tuple[str, ...] = ()
    snippets: tuple[Snippet, ...] = ()
