"""What a note is searched for: the patient's words, the clinician's question, or both (heiDS 2025)."""

from __future__ import annotations

from typing import Literal

QueryMode = Literal["patient", "clinician", "both"]


def retrieval_query(narrative: str, question: str, mode: QueryMode) -> str:
    """One query; where a case lacks the one part, the other stands for it.

    Args:
        narrative: The patient's words; superfluous spaces are dropped.
        question: The clinician's.
        mode: Which of them to search for; `both` has the layout of heiDS.
    """
    words = " ".join(narrative.split())
    if mode == "both" and words and question:
        return f"Patient Narrative: {words}\nClinician Question: {question}"
    first, second = (words, question) if mode == "patient" else (question, words)
    return first or second
