"""Texts of a case that are compared with demonstrations."""

from __future__ import annotations

import hashlib
from typing import Literal

from cases.records import Case

View = Literal["evidence", "answer"]
"""Which text of a case is compared: with or without its intent (`evidence_text`, `answer_text`)."""


def evidence_text(case: Case) -> str:
    """Text for comparing evidence demonstrations: question and narrative."""
    return f"{case.question} {case.narrative}".strip()


def answer_text(case: Case, intent: str | None) -> str:
    """Text for comparing answer demonstrations: intent, question and narrative (TAMU 2026, eq. 24)."""
    return f"{intent or ''} {case.question} {case.narrative}".strip()


def fingerprint(case: Case) -> str:
    """SHA-256 of question and narrative without differences of case and white space."""
    return hashlib.sha256(" ".join(evidence_text(case).lower().split()).encode()).hexdigest()
