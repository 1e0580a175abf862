"""From a prediction to the entry of a submission and back, for each task. Pure functions.

`form_faults` finds what makes the official loader raise; `prediction_of` may be asked only about an entry
without such a fault, and then says what the scorer would take it for.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

from cases.submissions.cited_lines import read_cited_text, write_cited_text
from cases.submissions.fault import Fault
from cases.submissions.prediction import Prediction, Task
from cases.submissions.word_limits import cut

_PARTS: Mapping[Task, str] = {
    "2025": "cited_answer",
    "2026-1": "question",
    "2026-2": "evidence",
    "2026-3": "answer",
    "2026-4": "links",
}


def field_of(task: Task) -> str:
    """The field of an entry that holds what is predicted."""
    return "answer" if task == "2025" else "prediction"


def has_part(prediction: Prediction, task: Task) -> bool:
    """Whether a prediction says anything on a task."""
    return getattr(prediction, _PARTS[task]) is not None


def entry_of(prediction: Prediction, task: Task) -> dict[str, Any]:
    """Write a prediction as an entry.

    Raises:
        ValueError: The prediction says nothing on this task, or the form cannot hold an id of it; names
            the case.
    """
    if not has_part(prediction, task):
        raise ValueError(f"case {prediction.case_id!r}: nothing is predicted of its {_PARTS[task]}")
    try:
        return {"case_id": prediction.case_id, field_of(task): _written(prediction, task)}
    except ValueError as error:
        raise ValueError(f"case {prediction.case_id!r}: {error}") from None


def prediction_of(entry: Mapping[str, Any], task: Task) -> Prediction:
    """Read an entry without faults of form as the official scorer of the task does."""
    case_id, value = entry["case_id"], entry[field_of(task)]
    match task:
        case "2025":
            read = read_cited_text(value)
            return Prediction(case_id, evidence=read.citations, answer=read.text, cited_answer=read.sentences)
        case "2026-1":
            return Prediction(case_id, question=cut(value.strip(), task))
        case "2026-2":
            return Prediction(case_id, evidence=tuple(dict.fromkeys(value)))
        case "2026-3":
            return Prediction(case_id, answer=cut(value.strip(), task))
        case "2026-4":
            pairs = ((item["answer_id"], id_) for item in value for id_ in item["evidence_id"])
            return Prediction(case_id, links=tuple(dict.fromkeys(pairs)))


def form_faults(entry: object, number: int, task: Task) -> list[Fault]:
    """Find what makes the official loader raise on an entry, the `number`th of its file, from 1."""
    if not isinstance(entry, dict):
        return [Fault("refused", None, f"entry {number}", f"{_kind(entry)}, not an object")]
    field = field_of(task)
    case = entry.get("case_id")
    name = case if isinstance(case, str) else None
    place = "" if name is not None else f"entry {number}"
    faults = list(_case_id_faults(entry, place))
    if field not in entry:
        faults.append(Fault("refused", name, place, f"no field {field!r}", _other_field(entry, field)))
        return faults
    prefix = f"{place}: " if place else ""
    faults += [
        Fault("refused", name, f"{prefix}{where}", fault, remedy)
        for where, fault, remedy in _VALUE_FAULTS[task](entry[field], field)
    ]
    return faults


def _written(prediction: Prediction, task: Task) -> Any:
    if task == "2025":
        return write_cited_text(prediction.cited_answer or ())
    if task == "2026-2":
        return list(prediction.evidence or ())
    if task == "2026-4":
        cited: dict[str, list[str]] = {}
        for answer_id, evidence_id in prediction.links or ():
            cited.setdefault(answer_id, []).append(evidence_id)
        return [{"answer_id": answer_id, "evidence_id": ids} for answer_id, ids in cited.items()]
    return prediction.question if task == "2026-1" else prediction.answer


_Found = Iterator[tuple[str, str, str]]


def _case_id_faults(entry: Mapping[str, Any], place: str) -> Iterator[Fault]:
    if "case_id" not in entry:
        yield Fault("refused", None, place, "no field 'case_id'")
        return
    case_id = entry["case_id"]
    if not isinstance(case_id, str):
        remedy = f'Write "{case_id}"' if _is_whole(case_id) else "Give the id as text"
        yield Fault("refused", None, place, f"case_id is {_kind(case_id)}, not text", remedy)


def _other_field(entry: Mapping[str, Any], field: str) -> str:
    other = "answer" if field == "prediction" else "prediction"
    if other not in entry:
        return f"Put what is predicted into {field!r}"
    year = "2025" if other == "answer" else "2026"
    return f"{other!r} is the field of {year}: give another --task, or rename it"


def _cited_answer_faults(value: object, field: str) -> _Found:
    if not isinstance(value, str):
        yield field, f"{_kind(value)}, not text", ""
    elif not read_cited_text(value).citations:
        yield field, "no citation in it", "End each line with the ids that it is built on: |1,2|"


def _text_faults(value: object, field: str) -> _Found:
    if not isinstance(value, str):
        yield field, f"{_kind(value)}, not text", ""
    elif not value.strip():
        yield field, "it is empty", "A text task has no way to hand in nothing"


def _evidence_faults(value: object, field: str) -> _Found:
    if not isinstance(value, list):
        yield field, f"{_kind(value)}, not a list of sentence ids", 'Write ["1", "2"]'
    else:
        yield from _id_faults(value, field)


def _link_faults(value: object, field: str) -> _Found:
    if not isinstance(value, list):
        form = '[{"answer_id": "1", "evidence_id": ["1", "2"]}]'
        yield field, f"{_kind(value)}, not a list of objects", f"Write {form}"
        return
    for index, item in enumerate(value):
        place = f"{field}[{index}]"
        if not isinstance(item, dict):
            yield place, f"{_kind(item)}, not an object", ""
            continue
        for name in ("answer_id", "evidence_id"):
            if name not in item:
                yield place, f"no field {name!r}", ""
        answer_id, evidence = item.get("answer_id", ""), item.get("evidence_id", [])
        if not isinstance(answer_id, str):
            yield f"{place}.answer_id", f"{_kind(answer_id)}, not text", _quoted(answer_id)
        if not isinstance(evidence, list):
            yield f"{place}.evidence_id", f"{_kind(evidence)}, not a list", 'Write ["1", "2"]'
        else:
            yield from _id_faults(evidence, f"{place}.evidence_id")


def _id_faults(ids: list[Any], place: str) -> _Found:
    for index, id_ in enumerate(ids):
        if not isinstance(id_, str):
            yield f"{place}[{index}]", f"{_kind(id_)}, not text", _quoted(id_)


_VALUE_FAULTS: Mapping[Task, Callable[[object, str], _Found]] = {
    "2025": _cited_answer_faults,
    "2026-1": _text_faults,
    "2026-2": _evidence_faults,
    "2026-3": _text_faults,
    "2026-4": _link_faults,
}


def _quoted(id_: object) -> str:
    return f'Write "{id_}"' if _is_whole(id_) else ""


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"the truth value {str(value).lower()}"
        case int() | float():
            return f"the number {reprlib.repr(value)}"
        case str():
            return f"the text {reprlib.repr(value)}"
        case list():
            return "a list"
        case _:
            return "an object"
