"""Which text each task holds a prediction against (official scorers of 2025 and 2026)."""

from __future__ import annotations

from evals.metrics.text_metric import TextPair
from evals.scoring.matching import Matched


def pair_2025(matched: Matched) -> tuple[TextPair, TextPair]:
    """The pair of all metrics, and that of SARI.

    The reference is the narrative, the clinician's question and the essential sentences; SARI rewrites the
    first two into the last. The official scorer joins the essential sentences in the order of a Python set,
    which changes from run to run; here they stand in note order.
    """
    made, gold = matched
    asked = f"{(gold.narrative or '').strip()}\n\n{(gold.question or '').strip()}"
    essential = "\n".join(gold.essential_texts or ())
    prediction = made.answer or ""
    return TextPair(prediction, f"{asked}\n\n{essential}"), TextPair(prediction, essential, asked)


def pair_question(matched: Matched) -> TextPair:
    """Subtask 1 of 2026: against the clinician's question."""
    return TextPair(matched.made.question or "", matched.gold.question or "")


def pair_answer(matched: Matched) -> TextPair:
    """Subtask 3 of 2026: against the clinician's answer; SARI's source is the narrative alone."""
    made, gold = matched
    return TextPair(made.answer or "", gold.answer or "", gold.narrative or "")
