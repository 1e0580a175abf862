"""What is asked of the note, out of a patient's message and a clinician's question (heiDS 2025)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

Part = Literal["patient", "clinician"]
QueryMode = Literal["patient", "clinician", "both"]

BOTH = "Patient Narrative: {patient}\nClinician Question: {clinician}"
"""The released code's own words; no model is told to treat it as a query."""


class Query(NamedTuple):
    """A query, and the parts of the case that it is made of."""

    text: str
    parts: tuple[Part, ...]


def retrieval_query(
    mode: QueryMode, patient: str, clinician: str, prepare: Callable[[str], str] = str.strip
) -> Query:
    """Put a query together.

    Args:
        mode: What is wanted. What the case lacks is left out; where nothing is left, the other part stands
            in.
        patient: The message; may be blank.
        clinician: The question; may be blank.
        prepare: What is done to each part.
    """
    texts: dict[Part, str] = {"patient": patient, "clinician": clinician}
    there = [part for part, text in texts.items() if text.strip()]
    wanted = [part for part in there if mode in (part, "both")] or there
    parts = tuple(wanted)
    if len(parts) == 2:
        return Query(BOTH.format(patient=prepare(patient), clinician=prepare(clinician)), parts)
    return Query(prepare(texts[parts[0]]) if parts else "", parts)
