"""A node execution as a span: what it decided, why, and where the case went next."""

from __future__ import annotations

import json
from collections.abc import Mapping

from evals.spans import names
from evals.spans.ids import span_id
from evals.spans.intervals import nanoseconds
from evals.spans.span import Span, Value
from evals.spans.without_text import because_without_text, error_type, facts_without_text
from runs.folder import Line


def node_span(step: Line, root: Span, *, payloads: bool) -> Span:
    """The span of a node execution, a child of its case's root.

    Args:
        step: A line of the trace.
        root: The case's span; `started` of the step counts from its begin.
        payloads: Whether facts, reasons and errors may hold text of the case.
    """
    facts = (step.get("facts") or {}) if payloads else facts_without_text(step)
    because = step.get("because") if payloads else because_without_text(step)
    attributes: dict[str, Value] = {
        names.KIND: names.NODE_KINDS.get(step["node"], "CHAIN"),
        "evigraph.step": step["step"],
        "evigraph.reads": list(step.get("reads", ())),
        "evigraph.next": list(step.get("next", ())),
        "evigraph.flags": list(step.get("flags", ())),
        **{f"evigraph.facts.{name}": _value(value) for name, value in facts.items() if value is not None},
    }
    if because:
        attributes["evigraph.because"] = attributes[names.OUTPUT] = because
    if names.NODE_KINDS.get(step["node"]) == "RETRIEVER":
        attributes |= _retrieved(facts)
    error = step.get("error")
    if error:
        attributes[names.ERROR_TYPE] = error_type(step)
    start = root.start_ns + nanoseconds(step["started"])
    return Span(
        trace_id=root.trace_id,
        span_id=span_id(root.trace_id, step["step"]),
        parent_id=root.span_id,
        name=step["node"],
        kind="internal",
        start_ns=start,
        end_ns=start + nanoseconds(step["seconds"]),
        attributes=attributes,
        failed=bool(error),
        message=str(error) if error and payloads else "",
    )


def _value(value: object) -> Value:
    """A fact as an attribute: lists of texts as they are, other containers as JSON."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _retrieved(facts: Mapping[str, object]) -> dict[str, Value]:
    """Demonstrations as OpenInference has documents; the score is the cosine similarity."""
    chosen = facts.get("chosen")
    found: dict[str, Value] = {}
    for number, shown in enumerate(chosen if isinstance(chosen, list) else ()):
        found[f"{names.RETRIEVED}.{number}.document.id"] = shown["case_id"]
        found[f"{names.RETRIEVED}.{number}.document.score"] = round(1.0 - shown["distance"], 6)
    return found
