"""What a system says of one of BioASQ's questions, free of file formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cases.biomedical import Snippet

BioasqTask = Literal["bioasq-a", "bioasq-a+", "bioasq-b"]
"""Documents and snippets; answers from documents of one's own; answers from those that experts chose."""

BIOASQ_TASKS: tuple[BioasqTask, ...] = get_args(BioasqTask)

MOST_DOCUMENTS = 10
MOST_SNIPPETS = 10
MOST_FACTOID_ENTRIES = 5
MOST_LIST_ENTRIES = 100
MOST_ENTRY_CHARACTERS = 100
MOST_IDEAL_WORDS = 200


@dataclass(frozen=True, slots=True)
class BioasqPrediction:
    """What is said of a question; a part that nobody gave is None, and never empty.

    Attributes:
        id: Of the question.
        documents: Ids, best first.
        snippets: Best first.
        exact_answer: A text for a question of yes or no, else entries with their synonyms; of a factoid the
            best first.
        ideal_answer: A text.
    """

    id: str
    documents: tuple[str, ...] | None = None
    snippets: tuple[Snippet, ...] | None = None
    exact_answer: str | tuple[tuple[str, ...], ...] | None = None
    ideal_answer: str | None = None
