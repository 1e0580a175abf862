"""Pages of several reviewers: who has what to review, how far they agree, and where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cases.records import Case
from cases.texts import quoted
from evals.agreement import ReviewerAgreement
from runs.review.reviewers import Queue, Standing
from runs.review.reviews import DEFINITIONS
from viewer.addresses import ServedAddresses
from viewer.case_parts.note import mark_phrases
from viewer.case_parts.review import CHOICES
from viewer.pages.blind import BlindForm
from viewer.rendering import render


@dataclass(frozen=True, slots=True)
class AssignForm:
    """The form that assigns cases.

    Attributes:
        possible: Whether the person may assign cases.
        to: Names to start with.
        assigned: How many cases have just been assigned; None if none was asked for.
    """

    possible: bool = False
    to: str = ""
    fault: str = ""
    assigned: int | None = None


def reviewers_page(
    name: str,
    path: Path,
    queues: Sequence[Queue],
    standings: Mapping[str, Standing],
    agreement: ReviewerAgreement,
    addresses: ServedAddresses,
    form: AssignForm,
) -> str:
    """Everybody's queue, agreement, and the cases on which reviewers differ."""
    undecided = [id_ for id_ in agreement.differing if standings[id_].undecided]
    return render(
        "reviewers.html",
        name=name,
        run=quoted(path),
        queues=queues,
        agreement=agreement,
        table=agreement.table,
        differing={id_: standings[id_] for id_ in agreement.differing},
        links={id_: addresses.adjudicate(name, id_) for id_ in agreement.differing},
        undecided=undecided,
        missing=sum(bool(one.missing) for one in standings.values()),
        key=addresses.key(name) if any(one.counting for one in standings.values()) else None,
        form=form,
        addresses=addresses,
    )


@dataclass(frozen=True, slots=True)
class SharedSentence:
    """A sentence with the label of each reviewer, empty where one gave none.

    Attributes:
        unsure: Names of the reviewers who are not sure of theirs.
        chosen: The label that the form starts with; empty where reviewers differ.
    """

    id: str
    text: str
    labels: tuple[str, ...]
    unsure: tuple[str, ...]
    differs: bool
    chosen: str


def adjudicate_page(
    name: str,
    case_id: str,
    case: Case | None,
    standing: Standing,
    form: BlindForm,
    addresses: ServedAddresses,
    *,
    reviewer: str,
    fault: str = "",
) -> str:
    """The labels of all reviewers side by side, with the form of a decision."""
    texts = {one.id: one.text for one in case.sentences} if case else {}
    decided = (standing.adjudication.labels or {}) if standing.adjudication is not None else {}
    reviews = standing.by_reviewer
    sentences = []
    for id_ in standing.sentence_ids:
        labels = tuple((one.labels or {}).get(id_, "") for one in reviews.values())
        differs = id_ in standing.differing
        sentences.append(
            SharedSentence(
                id=id_,
                text=texts.get(id_, ""),
                labels=labels,
                unsure=tuple(who for who, one in reviews.items() if id_ in one.unsure),
                differs=differs,
                chosen=form.labels.get(id_) or decided.get(id_) or ("" if differs else labels[0]),
            )
        )
    return render(
        "adjudicate.html",
        name=name,
        case_id=case_id,
        question=case.question if case else "",
        message=mark_phrases(case.narrative if case else "", case.phrases if case else ()),
        definitions=DEFINITIONS,
        standing=standing,
        reviewers=list(reviews),
        comments={who: one.comment for who, one in reviews.items() if one.comment},
        sentences=sentences,
        choices=CHOICES,
        form=form,
        reviewer=reviewer,
        action=addresses.adjudicate(name, case_id),
        back=addresses.reviewers(name),
        addresses=addresses,
        fault=fault,
    )
