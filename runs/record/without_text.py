"""Parts of a decision that may be sent without payloads: ids, counts and labels, no text of a case or model.

Nodes declare what of each fact holds no text. A fact that none has declared is left out, but for numbers.
"""

from __future__ import annotations

from dataclasses import replace

from cases.records import Case
from graph.system import find_node, find_system
from nodes.core.facts import fault_class
from nodes.core.failure import NodeFailure
from runs.record.folder import Line


def facts_without_text(step: Line) -> dict[str, object]:
    """The facts of a node execution that hold ids, labels and numbers only."""
    node = find_node(step["node"])
    declared = node.facts if node is not None else {}
    kept: dict[str, object] = {}
    for name, value in (step.get("facts") or {}).items():
        if isinstance(value, bool | int | float):
            kept[name] = value
        elif name in declared and value is not None:
            kept[name] = declared[name].keep(value)
    return {name: value for name, value in kept.items() if value is not None}


_QUOTING = frozenset({"failed_reflections", "intent_unclassified", "reviewed"})
"""Flags of decisions whose reason quotes a reply, an error or a person."""


def because_without_text(step: Line) -> str | None:
    """The reason of a node execution, None where it may quote a reply, a person or an error."""
    node = find_node(step["node"])
    quotes = (
        node is None
        or step.get("error")
        or "error_class" in (step.get("facts") or {})
        or not _QUOTING.isdisjoint(step.get("flags", ()))
    )
    return None if quotes else step.get("because")


def error_type(step: Line) -> str:
    """The class of the error that a node execution ended with: one of ours, else the exception's name."""
    recorded = (step.get("facts") or {}).get("error_class")
    found = recorded or fault_class(str(step.get("because", "")).removeprefix("failed: "))
    if found:
        return str(found)
    name = str(step["error"]).partition(":")[0]
    return name if name.isidentifier() and name != NodeFailure.__name__ else "_OTHER"


def line_without_text(line: Line, system: str) -> Line:
    """A line of `cases.jsonl` without answers, interpreted questions, texts of passages, error messages."""
    results = find_system(system).results
    kept = {name: cut(line[name]) for name, cut in results.items() if line.get(name) is not None}
    return line | kept | {"error": _error_without_text(line["error"])}


def step_without_text(step: Line) -> Line:
    """A line of the trace with the facts and reasons alone that are known to contain no text."""
    if step["node"] == "__end__":
        return {**step, "error": _error_without_text(step["error"])}
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


def case_without_text(case: Case) -> Case:
    """Only sentence ids and labels."""
    gold = replace(case.gold, answer=None, answer_sentences=None, exact_answer=None, ideal_answers=None)
    sentences = tuple(replace(sentence, text="") for sentence in case.sentences)
    return Case(id=case.id, narrative="", question="", sentences=sentences, gold=gold)


def _error_without_text(error: Line | None) -> Line | None:
    return error and {"class": error["class"], "message": ""}
