"""Facts of decisions: what of each may leave without payloads, and the lines that people read of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serving.protocol.errors import ERROR_CLASSES

Facts = Mapping[str, Any]

Row = tuple[str, str]
"""A line under a decision: label and text."""


def whole(value: Any) -> object:
    """A value that holds no text."""
    return value


def withheld(value: Any) -> object:
    """Nothing: the value may hold text of a case or of a model."""
    return None


def no_rows(value: Any, facts: Facts) -> list[Row]:
    """No line: the reason of the decision says it, or it is for programs."""
    return []


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of a node's decisions.

    Attributes:
        keep: From its value to what may leave without payloads: ids, labels and numbers, no text.
        rows: From its value and all facts of the decision to the lines that people read.
    """

    keep: Callable[[Any], object] = whole
    rows: Callable[[Any, Facts], list[Row]] = no_rows


def fault_class(text: str) -> str | None:
    """The error class before the colon of `class: message`; messages of servers may quote a prompt."""
    name = text.partition(":")[0]
    return name if name in ERROR_CLASSES else None


def fault_classes(faults: Mapping[str, str]) -> dict[str, str]:
    """Error classes by what failed."""
    return {name: fault_class(text) or "" for name, text in faults.items()}


def in_brackets(ids: Sequence[str]) -> str:
    """Ids as people read them."""
    return f"[{' '.join(ids)}]"


def id_list(label: str) -> Fact:
    """Ids on a separate line; no line if there are none."""
    return Fact(rows=lambda ids, _: [(label, in_brackets(ids))] if ids else [])


def scores_by_id(label: str) -> Fact:
    """Numbers by id, on one line."""
    return Fact(
        rows=lambda scores, _: [(label, " ".join(f"{id_}:{score:.2f}" for id_, score in scores.items()))]
    )


def missing(label: str) -> Fact:
    """Faults by what failed, a line each."""
    return Fact(
        keep=fault_classes,
        rows=lambda faults, _: [(f"{label} {name}", f"missing, {fault}") for name, fault in faults.items()],
    )


def _demonstration_rows(chosen: Sequence[Facts], _: Facts) -> list[Row]:
    rows = []
    for one in chosen:
        intent = f", {one['intent']}" if one["intent"] else ""
        rows.append((f"case {one['case_id']}", f"distance {one['distance']:.3f}, by {one['tier']}{intent}"))
    return rows


def _count_rows(counts: Mapping[str, int], facts: Facts) -> list[Row]:
    if "sums" in facts:
        # A calibrated rule has decided, and no threshold of votes.
        return []
    said = " ".join(f"{id_}:{count}" for id_, count in counts.items())
    return [(f"counts (T = {facts['threshold']})", said)]


PLAIN = Fact()
"""Ids, labels, numbers; not printed on a separate line."""

TEXT = Fact(keep=withheld)
"""Texts, which never leave without payloads; not printed on a separate line."""


def plain(*names: str) -> dict[str, Fact]:
    """Facts that hold ids, labels and numbers alone, and are not printed on separate lines."""
    return dict.fromkeys(names, PLAIN)


CHOSEN_DEMONSTRATIONS: Mapping[str, Fact] = {
    "chosen": Fact(rows=_demonstration_rows),
    "excluded": PLAIN,
}
"""Facts of a node that chooses demonstrations."""

SHOWN_DEMONSTRATIONS: Mapping[str, Fact] = plain("demonstrations", "dropped_demonstrations")
"""Facts of a node whose prompt shows demonstrations."""

DROPPED_DEMONSTRATIONS = {
    "dropped_demonstrations": "demonstrations were left out, as the prompt was too long"
}
"""The flag of such a node."""

BALLOT: Mapping[str, Fact] = {
    "votes": Fact(
        rows=lambda votes, _: [
            (f"vote {vote['vote']}", f"essential {in_brackets(vote['essential'])}") for vote in votes
        ]
    ),
    "failed_votes": missing("vote"),
    "rescued_votes": Fact(keep=list),
}
"""Facts of a node that asks for votes on evidence."""

INCOMPLETE = {"incomplete_replies": "labels still missing after the correction turn were filled in"}
"""The flag of a node that reads labels of a whole note."""

VOTE_FLAGS = {
    "missing_votes": "some votes failed; they count as missing, not as votes against",
    **INCOMPLETE,
}
"""Flags of a node that asks for votes."""

CUT_SENTENCES = {"cut_sentences": "the ranker read only the beginning of some sentences"}
CUT_QUESTION = {"cut_question": "the ranker read only the beginning of the question"}
"""Flags of a node that a ranker's window cuts texts for."""

VOTE_COUNTS = Fact(rows=_count_rows)
"""Votes by sentence, with their `threshold`."""

LINKS = Fact(
    rows=lambda links, _: [(f"answer sentence {id_}", in_brackets(cited)) for id_, cited in links.items()]
)
"""Ids of note sentences by answer sentence."""
