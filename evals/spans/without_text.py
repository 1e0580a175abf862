"""What of a decision may leave without payloads: ids, counts and labels, no text of a case or of a model.

A list of what is known to hold no text, not of what holds some: the facts of a node that is not listed here
are left out, but for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nodes.core.failure import NodeFailure
from runs.folder import Line
from serving.errors import ERROR_CLASSES

_DEMONSTRATIONS = {"chosen", "excluded", "demonstrations", "dropped_demonstrations"}
_BALLOT = {"votes", "failed_votes", "rescued_votes"}

FACTS: Mapping[str, frozenset[str]] = {
    "adopt_patient_question": frozenset({"found_in"}),
    "adopt_snippets": frozenset({"sources"}),
    "aggregate_exact_answers": frozenset({"question_type"}),
    "aggregate_votes": frozenset({"counts", "essential", "label_confidence"}),
    "aggregate_verdict": frozenset(
        {"verdict", "reading_counts", "weights", "weighting", "disagreement", "released_behaviour"}
    ),
    "align_answer": frozenset({"aligned_answer", "links", "rescued", *_DEMONSTRATIONS}),
    "answer_exactly": frozenset(
        {"question_type", "failed_votes", "rescued_votes", "defaulted_votes", *_DEMONSTRATIONS}
    ),
    "answer_ideally": frozenset({"question_type", "faults", *_DEMONSTRATIONS}),
    "attribute_answer": frozenset({"links", "cited", "weights", "best", "vectors"}),
    "check_answer": frozenset({"faults", "verdict"}),
    "check_votes": frozenset({"counts", "undecided"}),
    "choose_answer_evidence": frozenset({"setting", "chosen"}),
    "classify_intent": frozenset({"primary", "secondary", "risk_level"}),
    "combine_rankings": frozenset(
        {"ranking", "ensemble", "weights", "scores_from", "first", "first_scores", "second"}
    ),
    "explain_verdict": frozenset({"shown", "dropped_passages", "cited"}),
    "filter_documents": frozenset({"kept", "dropped", "minimum_strength"}),
    "generate_answer": frozenset({"evidence", *_DEMONSTRATIONS}),
    "generate_cited_answer": frozenset({"shown"}),
    "generate_uncited_answer": frozenset({"shown"}),
    "interpret_question": frozenset({"faults", *_DEMONSTRATIONS}),
    "label_evidence": frozenset({*_BALLOT, *_DEMONSTRATIONS}),
    "label_from_answer": frozenset({"labels_from", "label_source", "essential", *_BALLOT}),
    "rank_evidence": frozenset({"essential", "scores", "cutoff", "cutoff_of", "ranker", "cut_sentences"}),
    "read_passages": frozenset({"readings", "failed_readings", "reader", "cut_passages"}),
    "reflect_on_labels": frozenset({"before", "after", "added", "removed", "rescued", "error_class"}),
    "reformulate_question": frozenset({"error_class"}),
    "rerank_by_model": frozenset({"order", "before", "unknown_ids", "failed_windows", "dropped_documents"}),
    "rerank_documents": frozenset({"ranking", "stage", "reranker", "found_at"}),
    "retrieve_answer_demonstrations": frozenset({"selection", *_DEMONSTRATIONS}),
    "retrieve_evidence_demonstrations": frozenset({*_DEMONSTRATIONS}),
    "retrieve_documents": frozenset({"documents", "lists", "corpus", "index"}),
    "retrieve_sentences": frozenset(
        {"retrieved", "scores", "query", "cutoff", "clean", "retriever", "reranker", "cut_sentences"}
    ),
    "search_literature": frozenset({"documents", "corpus"}),
    "select_passages": frozenset({"passages", "doc_mode", "topj_order"}),
    "select_snippets": frozenset({"snippets", "ranker"}),
    "validate_citations": frozenset({"faults", "verdict", "links", "cited"}),
    "widen_evidence": frozenset({"chosen"}),
}
"""Facts of each node that hold no text; numbers and truth values need no entry."""

_QUOTED: Mapping[str, Callable[[Any], object]] = {
    # Faults name what a model wrote; servers' messages may quote a prompt.
    "failed_votes": lambda votes: {number: known_class(text) or "" for number, text in votes.items()},
    "failed_readings": lambda passages: {id_: known_class(text) or "" for id_, text in passages.items()},
    "failed_windows": lambda windows: [known_class(text) or "" for text in windows],
    # What a model made up may be a text.
    "unknown_ids": len,
    "rescued_votes": list,
    "rescued": bool,
}
"""Facts that quote, and what is kept of them."""


def facts_without_text(step: Line) -> dict[str, object]:
    """The facts of a node execution that hold ids, labels and numbers only."""
    listed = FACTS.get(step["node"], frozenset())
    kept: dict[str, object] = {}
    for name, value in (step.get("facts") or {}).items():
        if isinstance(value, bool | int | float):
            kept[name] = value
        elif name in listed and value is not None:
            kept[name] = _QUOTED[name](value) if name in _QUOTED else value
    return kept


def because_without_text(step: Line) -> str | None:
    """The reason of a node execution, None where it may quote a reply or an error."""
    quotes = (
        step["node"] not in FACTS
        or step.get("error")
        or "error_class" in (step.get("facts") or {})
        # It quotes what was wrong with the reply.
        or "intent_unclassified" in step.get("flags", ())
    )
    return None if quotes else step.get("because")


def error_type(step: Line) -> str:
    """The class of the error that a node execution ended with: one of ours, else the exception's name."""
    recorded = (step.get("facts") or {}).get("error_class")
    found = recorded or known_class(str(step.get("because", "")).removeprefix("failed: "))
    if found:
        return str(found)
    name = str(step["error"]).partition(":")[0]
    return name if name.isidentifier() and name != NodeFailure.__name__ else "_OTHER"


def known_class(text: str) -> str | None:
    """The error class before the colon of `class: message`."""
    name = text.partition(":")[0]
    return name if name in ERROR_CLASSES else None
