"""What a system says of a case, whichever task it is handed in to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Task = Literal["2025", "2026-1", "2026-2", "2026-3", "2026-4"]
"""ArchEHR-QA 2025 (a cited answer), and the subtasks of 2026: 1 question, 2 evidence, 3 answer, 4 links."""


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence of an answer and the ids of the note sentences that it cites; none for no citation."""

    text: str
    citations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is predicted of one case. A part that nothing is said of is None, never empty.

    Read from a submission to 2025, three parts are filled: `cited_answer` with its sentences as they stand,
    `answer` with the text that is scored (cleaned, and cut at 75 words), and `evidence` with every id that
    any line cites, in the order of first mention, those of lines beyond the cut included. The ids are as
    the scorer takes them, blanks around them and all. Written, only `cited_answer` counts.

    Attributes:
        question: Clinician question (2026, subtask 1).
        evidence: Ids of the needed note sentences (2026, subtask 2).
        answer: Answer without citations (2026, subtask 3).
        links: Pairs of an answer sentence's id and a note sentence's id (2026, subtask 4).
        cited_answer: Answer by sentences with their citations (2025).
    """

    case_id: str
    question: str | None = None
    evidence: tuple[str, ...] | None = None
    answer: str | None = None
    links: tuple[tuple[str, str], ...] | None = None
    cited_answer: tuple[CitedSentence, ...] | None = None
