"""A run without any text of its cases: what is left are ids, labels, counts, times and routes."""

from __future__ import annotations

from dataclasses import replace

from cases.records import Case
from evals.spans.without_text import because_without_text, error_type, facts_without_text
from runs.reading import Run
from runs.trace_file import Line
from serving.messages import Message

TEXTS_LEFT_OUT = "texts are left out of these pages"

_TEXTS_OF_LINE = ("interpreted_question", "answer", "answer_sentences", "explanation", "exact_answer")


class RedactedRun(Run):
    """Reads like a run. Ids of cases and sentences stay: they are what is left to speak of."""

    def line(self, case_id: str) -> Line:
        """Without answers, interpreted questions, passages' texts and the messages of errors."""
        line = super().line(case_id)
        error = line["error"] and {"class": line["error"]["class"], "message": ""}
        shown = {name: None for name in _TEXTS_OF_LINE if name in line}
        return line | shown | {"error": error, "alignment": None} | _shared_texts(line)

    def trace(self, case_id: str) -> list[Line]:
        """With the facts and reasons alone that are known to hold no text."""
        return [_without_text(step) for step in super().trace(case_id)]

    def case(self, case_id: str) -> Case | None:
        """With the ids of its sentences and their labels."""
        case = super().case(case_id)
        if case is None:
            return None
        return Case(
            id=case.id,
            narrative="",
            question="",
            sentences=tuple(replace(sentence, text="") for sentence in case.sentences),
            gold=replace(
                case.gold, answer=None, answer_sentences=None, exact_answer=None, ideal_answers=None
            ),
        )

    @property
    def texts_fault(self) -> str | None:
        """Said in the place of texts."""
        return TEXTS_LEFT_OUT

    def conversation(self, key: str) -> list[Message]:
        """None is shown.

        Raises:
            KeyError: Always.
        """
        raise KeyError(key)


def _without_text(step: Line) -> Line:
    if step["node"] == "__end__":
        error = step["error"] and {"class": step["error"]["class"], "message": ""}
        return {**step, "error": error}
    facts = facts_without_text(step)
    if isinstance(rescued := facts.get("rescued_votes"), list):
        facts["rescued_votes"] = dict.fromkeys(rescued, "")
    return {
        **step,
        "because": because_without_text(step) or "",
        "facts": facts,
        "error": step.get("error") and error_type(step),
        "calls": [{**call, "fault": call.get("fault") and "rejected"} for call in step.get("calls", ())],
    }


def _shared_texts(line: Line) -> Line:
    """Who reviewed is no business of a bundle's readers; what was read of publications tells the question."""
    shown: Line = {"review": None} if "review" in line else {}
    untold = {"title": "", "text": "", "source": ""}
    if line.get("evidence_passages"):
        shown["evidence_passages"] = [one | untold for one in line["evidence_passages"]]
    if line.get("snippets"):
        shown["snippets"] = [one | {"text": ""} for one in line["snippets"]]
    return shown
