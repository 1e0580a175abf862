"""Pages of blind review: the queue of a reviewer, and a case with only its question and its note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cases.records import Case
from runs.review.reviewers import Queue
from runs.review.reviews import DEFINITIONS, Review
from viewer.addresses import ServedAddresses
from viewer.case_parts.note import mark_phrases
from viewer.case_parts.review import CHOICES, LABEL, read_seconds
from viewer.rendering import render

_UNSURE = "unsure."


@dataclass(frozen=True, slots=True)
class BlindForm:
    """A form as it was sent, or the review that was saved last.

    Attributes:
        unsure: Ids of the sentences whose label the reviewer is not sure of.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    unsure: Sequence[str] = ()
    comment: str = ""
    seconds: float | None = None
    action: Literal["save", "next"] = "next"

    @classmethod
    def of(cls, review: Review) -> BlindForm:
        """Form of a saved review."""
        return cls(review.labels or {}, review.unsure, review.comment)


def read_blind_form(fields: Iterable[tuple[str, str]], ids: Sequence[str]) -> BlindForm:
    """Read the fields of a form; unknown ones are ignored.

    Sentences are named by their position among `ids`, because ids are data.
    """
    named = dict(fields)
    labels = {id_: named[f"{LABEL}{at}"] for at, id_ in enumerate(ids) if f"{LABEL}{at}" in named}
    if "rest" in named:
        labels = {id_: labels.get(id_, "not-relevant") for id_ in ids}
    return BlindForm(
        labels=labels,
        unsure=[id_ for at, id_ in enumerate(ids) if f"{_UNSURE}{at}" in named],
        comment=named.get("comment", "").replace("\r\n", "\n").strip(),
        seconds=read_seconds(named.get("seconds", "")),
        action="save" if named.get("action") == "save" else "next",
    )


def blind_runs_page(names: Sequence[str], addresses: ServedAddresses) -> str:
    """The runs that can be reviewed."""
    return render("blind_runs.html", names=names, addresses=addresses)


def queue_page(
    name: str,
    queue: Queue | None,
    assigned: Sequence[str],
    addresses: ServedAddresses,
    *,
    fixed: bool,
    saved: str | None = None,
    fault: str = "",
) -> str:
    """The cases of a reviewer and the remaining ones, or a form for a name."""
    return render(
        "queue.html",
        name=name,
        queue=queue,
        assigned=assigned,
        addresses=addresses,
        fixed=fixed,
        saved=saved,
        fault=fault,
        definitions=DEFINITIONS,
        next=addresses.review(name, queue.open[0]) if queue and queue.open else None,
    )


def blind_case_page(
    name: str, case: Case, queue: Queue, form: BlindForm, addresses: ServedAddresses, *, fault: str = ""
) -> str:
    """A case to be labelled."""
    following = queue.after(case.id)
    return render(
        "blind_case.html",
        name=name,
        case_id=case.id,
        question=case.question,
        message=mark_phrases(case.narrative, case.phrases),
        sentences=case.sentences,
        choices=CHOICES,
        definitions=DEFINITIONS,
        queue=queue,
        place=queue.case_ids.index(case.id) + 1,
        form=form,
        action=addresses.review(name, case.id),
        skip=addresses.review(name, following) if following is not None else addresses.run(name),
        addresses=addresses,
        fault=fault,
    )
