"""What a reviewer has typed in a page, and the review that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from evals.pages.environment import plain
from runs.manifest import RunError
from runs.reviews import Review, confirmed, fingerprint, is_stale, labels_to_review, make_review
from runs.trace_file import Line

Action = Literal["save", "next", "confirm"]
LABEL = "label."
"""Begins the name of a choice; the place of its sentence follows, as ids are data and name no field."""


class Outdated(RunError):
    """The page was made before the case or its reviews changed."""


@dataclass(frozen=True, slots=True)
class Preset:
    """What a form shows before anybody types.

    Attributes:
        labels: By sentence id, `not-essential` already `not-relevant`.
        answer: The reviewed answer, or the run's; empty where there is none.
        shown: Fingerprint of the case's result.
        count: Reviews that the case had.
    """

    labels: Mapping[str, str]
    answer: str
    shown: str
    count: int


@dataclass(frozen=True, slots=True)
class Typed:
    """A form as it was sent.

    Attributes:
        labels: By place of the sentence among those with labels.
        labels_right: Whether labels that were not changed are confirmed where none was.
        answer_right: Whether an answer that was not changed is confirmed.
        shown: Fingerprint of the result that the page showed.
        count: Reviews that the page knew of.
    """

    reviewer: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""
    comment: str = ""
    labels_right: bool = False
    answer_right: bool = False
    shown: str = ""
    count: str = ""
    action: Action = "save"


def read_form(fields: Iterable[tuple[str, str]]) -> Typed:
    """The fields of a form; unknown ones are passed over. Line ends are those of files, not of forms."""
    named = {name: _lines(value) for name, value in fields}
    actions: dict[str, Action] = {"next": "next", "confirm": "confirm"}
    return Typed(
        reviewer=named.get("reviewer", "").strip(),
        labels={name.removeprefix(LABEL): one for name, one in named.items() if name.startswith(LABEL)},
        answer=named.get("answer", ""),
        comment=named.get("comment", "").strip(),
        labels_right="labels_right" in named,
        answer_right="answer_right" in named,
        shown=named.get("shown", ""),
        count=named.get("count", ""),
        action=actions.get(named.get("action", ""), "save"),
    )


def preset(line: Line, history: Sequence[Review]) -> Preset:
    """What the form of a case starts from.

    Args:
        line: Of `cases.jsonl`.
        history: All reviews of the case, oldest first.
    """
    answered = next((one for one in reversed(history) if one.answer is not None), None)
    answer = line["answer"] or ""
    if answered is not None and answered.answer is not None and not is_stale(answered, line):
        answer = answered.answer
    labels = confirmed(labels_to_review(line, _labelled(history)))
    return Preset(labels, answer, fingerprint(line), len(history))


def review_of(line: Line, history: Sequence[Review], typed: Typed) -> Review:
    """The review that a form makes.

    Args:
        line: Of `cases.jsonl`.
        history: All reviews of the case, oldest first.
        typed: The form.

    Raises:
        Outdated: The case has another result, or another review, than the page showed.
        RunError: Something of it is wrong, in one line.
    """
    start = preset(line, history)
    if typed.shown != start.shown:
        raise Outdated("The case has come to another result since this page was made.")
    if typed.count != str(start.count):
        raise Outdated("Somebody has reviewed this case since this page was made.")
    confirms = typed.action == "confirm"
    labels = changed_labels(start, typed)
    says_labels = bool(labels) or typed.labels_right or (confirms and bool(start.labels))
    answer = typed.answer if answer_changed(start, typed) else None
    if answer is None and (typed.answer_right or confirms):
        answer = start.answer or None
    return make_review(
        line,
        reviewer=typed.reviewer,
        labels=labels if says_labels else None,
        answer=answer,
        comment=typed.comment,
        earlier=_labelled(history),
        shown=typed.shown,
    )


def changed_labels(start: Preset, typed: Typed) -> dict[str, str]:
    """The labels that a reviewer has changed, by sentence id.

    Raises:
        RunError: The form names a sentence that the case does not have.
    """
    ids = list(start.labels)
    changed = {}
    for place, label in typed.labels.items():
        if not (place.isdecimal() and place.isascii() and int(place[:9]) < len(ids)):
            raise RunError(f"the form names a sentence {place[:40]!r}; the case has {len(ids):,} with labels")
        id_ = ids[int(place[:9])]
        if label != start.labels[id_]:
            changed[id_] = label
    return changed


def answer_changed(start: Preset, typed: Typed) -> bool:
    """Whether the answer is another one than the page showed, as far as a page can show it."""
    return typed.answer.strip() != as_shown(start.answer).strip()


def as_shown(text: str) -> str:
    """A text as a form shows it and sends it back."""
    return plain(_lines(text))


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _labelled(history: Sequence[Review]) -> Review | None:
    return next((one for one in reversed(history) if one.labels is not None), None)
