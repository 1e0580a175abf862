"""`reviews.jsonl`: people's reviews of a run's cases, in its folder; append-only."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from cases.formats.json_border import Identifier, Line, Text, fault, first_fault, not_empty
from cases.records import Label
from cases.texts import json_sha256
from runs.record.added_lines import AddedLines, OfCase
from runs.record.audit import record_if_possible
from runs.record.manifest import RunError

REVIEWS = "reviews.jsonl"

MAX_REVIEWER = 200
MAX_ANSWER = 20_000
MAX_COMMENT = 10_000
MAX_SECONDS = 7 * 24 * 3600

Part = Literal["labels", "answer"]
ShownLabel = Label | Literal["not-essential"]
"""`not-essential` is a run's label; a reviewer distinguishes supplementary and not relevant."""

DEFINITIONS: Mapping[Label, str] = MappingProxyType(
    {
        "essential": "the answer needs it: without it the answer is wrong or incomplete",
        "supplementary": "supports or explains the answer, which is complete without it",
        "not-relevant": "contributes nothing to the answer",
    }
)
"""Definitions of the labels, as reviewers read them."""

_BLANKS = "\t\n\r"
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Make a text read as another one than it is."""


def _plain(value: str) -> str:
    for position, letter in enumerate(value, start=1):
        if letter in _DIRECTIONS or (unicodedata.category(letter) == "Cc" and letter not in _BLANKS):
            raise fault(f"character {position} is U+{ord(letter):04X}, which has no place in a text")
    return value


def _at_most(letters: int) -> AfterValidator:
    def short(value: str) -> str:
        if len(value) > letters:
            raise fault(f"has {len(value):,} characters, of at most {letters:,}")
        return value

    return AfterValidator(short)


def _moment(value: str) -> str:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise fault(f"{value[:40]!r} is not an ISO 8601 time") from None
    if moment.utcoffset() != timedelta(0):
        raise fault(f"{value!r} is not in UTC")
    return value


Reviewer = Annotated[Line, _at_most(MAX_REVIEWER), AfterValidator(_plain), AfterValidator(not_empty)]
"""The name of a person."""
Moment = Annotated[str, AfterValidator(_moment)]
"""UTC in ISO 8601."""


class Review(OfCase):
    """One person's review of one case at one time.

    Attributes:
        reviewed_at: When, UTC in ISO 8601.
        labels: Of every sentence, None where the review says nothing of labels.
        named: Ids that the reviewer labelled one by one; the others were confirmed as they were shown.
        answer: The answer that the reviewer confirms or gives; None if the review leaves it open.
        verdict: Whether it is the shown answer or the reviewer's.
        shown: Fingerprint (`fingerprint`) of the result that the reviewer saw, or for a blind review the
            result at its time.
        blind: Whether the reviewer saw no labels, neither the run's nor a key's nor those of others.
        unsure: Ids of the sentences whose label the reviewer is not sure of.
        seconds: How long the case was open before the reviewer; None where that was not measured.
        adjudicates: Whether it decides between the labels of several reviewers.
    """

    reviewer: Reviewer
    reviewed_at: Moment
    labels: dict[Identifier, Label] | None = None
    named: tuple[Identifier, ...] = ()
    shown_labels: dict[Identifier, ShownLabel] = Field(default_factory=dict)
    answer: (
        Annotated[Text, _at_most(MAX_ANSWER), AfterValidator(_plain), AfterValidator(not_empty)] | None
    ) = None
    verdict: Literal["confirmed", "corrected"] | None = None
    comment: Annotated[Text, _at_most(MAX_COMMENT), AfterValidator(_plain)] = ""
    shown: str = Field(pattern="^[0-9a-f]{64}$")
    blind: bool = False
    unsure: tuple[Identifier, ...] = ()
    seconds: Annotated[float, Field(ge=0, le=MAX_SECONDS)] | None = None
    adjudicates: bool = False

    @model_validator(mode="after")
    def _says_something(self) -> Review:
        if (self.answer is None) != (self.verdict is None):
            raise fault("an answer and a verdict on it come together")
        if self.labels is None and self.answer is None and not self.comment:
            raise fault("says nothing: give labels, an answer or a comment")
        return self

    @property
    def independent(self) -> bool:
        """Whether its labels are independent of the run's, and so outlast a new result."""
        return self.blind or self.adjudicates

    @property
    def corrected(self) -> list[str]:
        """Ids that the reviewer made essential, or no longer so, in the order of the note.

        A reviewer who was not shown labels has not corrected any.
        """
        if self.independent:
            return []
        return [
            id_
            for id_, label in (self.labels or {}).items()
            if (label == "essential") != (self.shown_labels.get(id_) == "essential")
        ]

    @property
    def words(self) -> str:
        parts = []
        if self.labels is not None:
            parts.append(self._words_on_labels(self.labels))
        if self.unsure:
            parts.append(f"unsure of {' '.join(self.unsure)}")
        if self.verdict is not None:
            parts.append(f"answer {self.verdict}")
        return ", ".join(parts) or "a comment"

    def _words_on_labels(self, labels: Mapping[str, str]) -> str:
        if self.independent:
            essential = [id_ for id_, label in labels.items() if label == "essential"]
            how = "adjudicated" if self.adjudicates else "labelled blind"
            return f"{how}, essential: {' '.join(essential) or 'none'}"
        changed = self.corrected
        return f"labels changed on {' '.join(changed)}" if changed else "labels confirmed"

    def reply(self) -> dict[str, Any]:
        """Value that resumes a graph waiting for this review, which has labels."""
        assert self.labels is not None
        return {"reviewer": self.reviewer, "reviewed_at": self.reviewed_at, "labels": dict(self.labels)}


def fingerprint(line: Mapping[str, Any]) -> str:
    """SHA-256 of a case's result as shown to reviewers: labels and answer."""
    return json_sha256([line["case_id"], line["labels"], line.get("answer")])


def is_stale(review: Review, line: Mapping[str, Any]) -> bool:
    """Whether the case's result has changed since; resuming with the review does not count.

    Labels that do not rest on the result are never stale.
    """
    if review.independent and review.labels is not None:
        return False
    own = line.get("review") or {}
    if (own.get("reviewer"), own.get("reviewed_at")) == (review.reviewer, review.reviewed_at):
        return False
    return review.shown != fingerprint(line)


def labels_to_review(line: Mapping[str, Any], earlier: Review | None) -> Mapping[str, str]:
    """Initial labels of a review: the last review's unless stale, else the run's."""
    if earlier is not None and earlier.labels is not None and not is_stale(earlier, line):
        return earlier.labels
    labels: Mapping[str, str] = line["labels"]
    return labels


def confirmed(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels confirmed without changes: a sentence that is not essential is not relevant."""
    return {id_: "not-relevant" if label == "not-essential" else label for id_, label in labels.items()}


def make_review(
    line: Mapping[str, Any],
    *,
    reviewer: str,
    labels: Mapping[str, str] | None = None,
    answer: str | None = None,
    comment: str = "",
    earlier: Review | None = None,
    shown: str | None = None,
    at: datetime | None = None,
    unsure: Sequence[str] = (),
    seconds: float | None = None,
) -> Review:
    """Review of a case's current state, checked against it.

    Sentences that `labels` do not name are confirmed as shown, those that are not essential as not relevant;
    None leaves labels open. An `answer` equal to the shown one confirms it. Unless stale, `earlier`, the last
    review of the case's labels, is shown. `shown` is the fingerprint of the result that the reviewer saw, if
    that may have changed.

    Raises:
        RunError: Something of it is wrong, in one line; or the case has changed since it was shown.
    """
    case_id = line["case_id"]
    if shown is not None and shown != fingerprint(line):
        raise RunError(f"case {case_id!r} has another result than the one that was shown; look at it again")
    basis = labels_to_review(line, earlier)
    return _checked(
        line,
        at,
        reviewer=reviewer,
        labels=None if labels is None else _completed(case_id, basis, labels),
        named=[id_ for id_ in basis if id_ in (labels or ())],
        shown_labels=dict(basis),
        answer=answer,
        verdict=_verdict(answer, line.get("answer")),
        comment=comment,
        unsure=_known(case_id, [*basis], unsure),
        seconds=seconds,
    )


def make_independent_review(
    line: Mapping[str, Any],
    ids: Sequence[str],
    *,
    reviewer: str,
    labels: Mapping[str, str],
    adjudicates: bool = False,
    comment: str = "",
    unsure: Sequence[str] = (),
    seconds: float | None = None,
    at: datetime | None = None,
) -> Review:
    """A review whose labels do not rest on those of the run: a blind one, or an adjudication.

    `ids` are those of the sentences of its note, and `labels` of every one of them.

    Raises:
        RunError: Something of it is wrong, in one line.
    """
    case_id = line["case_id"]
    if not ids:
        raise RunError(f"review of case {case_id!r}: its note has no sentences to label")
    _known(case_id, ids, labels)
    missing = [id_ for id_ in ids if id_ not in labels]
    if missing:
        raise RunError(f"review of case {case_id!r}: no label for sentence {_named(missing)}")
    return _checked(
        line,
        at,
        reviewer=reviewer,
        labels={id_: labels[id_] for id_ in ids},
        named=list(ids),
        comment=comment,
        blind=not adjudicates,
        unsure=_known(case_id, ids, unsure),
        seconds=seconds,
        adjudicates=adjudicates,
    )


def _checked(line: Mapping[str, Any], at: datetime | None, **said: Any) -> Review:
    moment = (at or datetime.now(UTC)).isoformat(timespec="milliseconds")
    about = {"case_id": line["case_id"], "reviewed_at": moment, "shown": fingerprint(line)}
    try:
        return Review.model_validate(about | said)
    except ValidationError as error:
        raise RunError(f"review of case {line['case_id']!r}: {first_fault(error)}") from None


def _known(case_id: str, ids: Sequence[str], wanted: Iterable[str]) -> list[str]:
    """The wanted ids in the order of the note.

    Raises:
        RunError: The case has no such sentence.
    """
    given = set(wanted)
    unknown = next((id_ for id_ in given if id_ not in ids), None)
    if unknown is not None:
        raise RunError(
            f"review of case {case_id!r}: it has no sentence {unknown[:40]!r}; its sentences are"
            f" {_named(ids)}"
        )
    return [id_ for id_ in ids if id_ in given]


def _completed(case_id: str, basis: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    if not basis:
        raise RunError(f"review of case {case_id!r}: the run has no labels of its sentences to review")
    _known(case_id, [*basis], labels)
    return confirmed(basis) | dict(labels)


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids) if len(ids) <= 8 else f"{', '.join(ids[:3])}, ..., {ids[-1]}"


def _verdict(answer: str | None, shown: str | None) -> str | None:
    if answer is None:
        return None
    return "confirmed" if shown is not None and answer.strip() == shown.strip() else "corrected"


_NOTHING: Mapping[str, str] = MappingProxyType({})


class Reviews(AddedLines[Review]):
    """The reviews of a run."""

    def __init__(self, run: Path) -> None:
        super().__init__(run / REVIEWS, Review)

    def add(self, *records: Review, noted: Mapping[str, str] = _NOTHING) -> None:
        """Add reviews for good, and note them in the run's audit log.

        `noted` is more for their lines in that log.

        Raises:
            RunError: They cannot be written.
        """
        super().add(*records)
        for review in records:
            parts = [part for part in ("labels", "answer") if getattr(review, part) is not None]
            record_if_possible(
                self.path.parent,
                "reviewed",
                person=review.reviewer,
                case=review.case_id,
                parts=parts,
                **noted,
            )

    def latest(self, part: Part | None = None) -> dict[str, Review]:
        """The last review of each case, or the last one that says something of a part.

        Raises:
            RunError: The file holds something else.
        """
        return {
            case_id: review
            for case_id, reviews in self.histories().items()
            for review in reviews
            if part is None or getattr(review, part) is not None
        }
