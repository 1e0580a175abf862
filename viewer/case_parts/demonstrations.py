"""Which annotated cases a prompt was shown, how far they are, and by which rule they were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graph.system import find_node
from runs.record.trace_file import Line

_RULES = {
    "similarity": "nearest",
    "primary": "same primary intent",
    "secondary": "same secondary intent",
    "fill": "nearest of the rest",
}


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One chosen case; `distance` is between embeddings, and `fate` whether a prompt showed it."""

    case_id: str
    distance: float | None
    intent: str
    source: str
    rule: str
    fate: str


@dataclass(frozen=True, slots=True)
class DemonstrationSet:
    """Demonstrations chosen for one prompt, in the step of that index."""

    purpose: str
    step: int
    because: str
    chosen: list[Demonstration]


def read_demonstrations(trace: Sequence[Line]) -> list[DemonstrationSet]:
    """The choices of a case, in the order of the trace."""
    found = []
    for index, step in enumerate(trace):
        chosen = (step.get("facts") or {}).get("chosen")
        node = find_node(step["node"])
        if node is None or node.demonstrations is None or not chosen:
            continue
        purpose, consumer = node.demonstrations
        kept, dropped = _shown(trace, consumer)
        shown = [_demonstration(one, kept, dropped) for one in chosen]
        found.append(DemonstrationSet(purpose, index, step["because"], shown))
    return found


def _shown(trace: Sequence[Line], consumer: str) -> tuple[set[str], set[str]]:
    steps = [step["facts"] for step in trace if step["node"] == consumer and step.get("facts")]
    kept = {id_ for facts in steps for id_ in facts.get("demonstrations") or ()}
    return kept, {id_ for facts in steps for id_ in facts.get("dropped_demonstrations") or ()}


def _demonstration(one: Line, kept: set[str], dropped: set[str]) -> Demonstration:
    id_ = one["case_id"]
    fate = "dropped, the prompt was too long" if id_ in dropped else "no prompt was made"
    tier = one.get("tier") or ""
    return Demonstration(
        case_id=id_,
        distance=one.get("distance"),
        intent=one.get("intent") or "",
        source=one.get("source") or "",
        rule=_RULES.get(tier, tier),
        fate="shown" if id_ in kept else fate,
    )
