"""Ids of subtasks 2 and 4 of 2026 that the key does not have: the scorers refuse them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from cases.submissions.fault import Fault, named
from cases.submissions.known_ids import KnownIds

_SENTENCE = "sentence of the note"
_ANSWER = "sentence of the clinician's answer"


def evidence_faults(case: str, ids: Iterable[str], known: KnownIds) -> Iterator[Fault]:
    """Find ids of an entry of subtask 2 that are no sentence of the note."""
    yield from _id_faults(case, "prediction", ids, known.sentences, _SENTENCE)


def link_faults(case: str, items: Iterable[Mapping[str, Any]], known: KnownIds) -> Iterator[Fault]:
    """Find ids of an entry of subtask 4 that the answer or the note does not have."""
    for index, item in enumerate(items):
        place = f"prediction[{index}]"
        answer_ids = [item["answer_id"]]
        yield from _id_faults(case, f"{place}.answer_id", answer_ids, known.answer_sentences, _ANSWER)
        yield from _id_faults(case, f"{place}.evidence_id", item["evidence_id"], known.sentences, _SENTENCE)


def _id_faults(
    case: str, place: str, ids: Iterable[str], known: Collection[str] | None, kind: str
) -> Iterator[Fault]:
    unique = list(dict.fromkeys(ids))
    blank = [id_ for id_ in unique if id_ != id_.strip() or not id_]
    if blank:
        # No key has such ids, so this can be said without one.
        fault = f"blanks count as part of an id: {named(blank)} is no {kind}"
        yield Fault("refused", case, place, fault, "Write ids without blanks")
    unknown = [id_ for id_ in unique if known is not None and id_ not in known and id_ not in blank]
    if unknown:
        fault = f"{named(unknown)} is no {kind}"
        yield Fault("refused", case, place, fault, "Name single ids, as the case has them")
