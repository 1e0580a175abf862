"""Plain JSON lines: the simple way in, one case a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cases.formats.json_border import (
    Identifier,
    IntentFields,
    Line,
    Text,
    first_fault,
    intent_fields,
    name_or_place,
    not_empty,
)
from cases.formats.json_lines import JsonFault, json_object, text_lines
from cases.records import Case, Gold, InvalidCase, Label, LabelSource, Sentence, Verdict
from storage.errors import InputError
from storage.files import json_bytes, write_atomically


def read_jsonl(path: Path) -> Iterator[Case | InvalidCase]:
    """Read the cases of `path` in file order, holding one at a time; a bad line does not stop the others.

    Raises:
        InputError: the file cannot be read, is not UTF-8, or has no case.
    """
    empty = True
    for number, text in text_lines(path):
        yield _case(number, text)
        empty = False
    if empty:
        raise InputError(path, "no case in it", "Put one JSON object on each line")


def write_jsonl(path: Path, cases: Iterable[Case]) -> None:
    """Write `cases` one a line; phrases, note excerpt and answer sentences have no place in this format."""
    write_atomically(path, jsonl(cases))


def jsonl(cases: Iterable[Case]) -> Iterator[bytes]:
    """The lines of `write_jsonl`."""
    return (json_bytes(_fields(case)) for case in cases)


def case_schema(ref_template: str = "#/$defs/{model}") -> dict[str, Any]:
    """The JSON schema of a line, for those who write such files.

    Args:
        ref_template: How it refers to its own parts, which it has under `$defs`.
    """
    schema = _Line.model_json_schema(ref_template=ref_template)
    sentences = schema["properties"]["sentences"]
    # Sentences without ids are numbered from 1.
    sentences["items"] = {"anyOf": [{"type": "string"}, sentences["items"]]}
    return schema


def case_of(fields: dict[str, Any]) -> Case:
    """The case that the fields of a line give.

    Raises:
        InputError: A field is missing, unknown or wrong.
    """
    found = _checked(fields, "case")
    if isinstance(found, InvalidCase):
        raise InputError(f"case {fields.get('case_id')!r}", found.fault.removeprefix("case: "))
    return found


def _numbered(value: object) -> object:
    if not isinstance(value, list):
        return value
    texts = enumerate(value, start=1)
    return [{"id": str(number), "text": item} if isinstance(item, str) else item for number, item in texts]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Sentence(_Strict):
    id: Identifier
    text: Annotated[Line, AfterValidator(not_empty)]


class _Intent(_Strict, IntentFields):
    pass


class _Line(_Strict):
    case_id: Identifier
    narrative: Text = ""
    question: Line = ""
    sentences: Annotated[list[_Sentence], BeforeValidator(_numbered)] = []
    specialty: Line = ""
    labels: dict[Identifier, Label] | None = None
    answer: Text | None = None
    intent: _Intent | None = None
    label_source: LabelSource = "gold"
    as_of: Annotated[int, Field(ge=1500, le=3000)] | None = None
    verdict: Verdict | None = None

    def record(self) -> Case:
        gold = Gold(
            labels=self.labels or None,
            answer=self.answer or None,
            intent=self.intent.record() if self.intent else None,
            label_source=self.label_source if self.labels else "gold",
            verdict=self.verdict,
        )
        return Case(
            id=self.case_id,
            narrative=self.narrative,
            question=self.question,
            sentences=tuple(Sentence(sentence.id, sentence.text) for sentence in self.sentences),
            specialty=self.specialty,
            as_of=self.as_of,
            gold=gold,
        )


_KNOWN = {"": _Line.model_fields, "sentences": _Sentence.model_fields, "intent": _Intent.model_fields}


def _case(number: int, text: str | None) -> Case | InvalidCase:
    try:
        fields = json_object(text, number)
    except JsonFault as error:
        return InvalidCase(f"line {number}", error.fault)
    return _checked(fields, f"line {number}")


def _checked(fields: dict[str, Any], place: str) -> Case | InvalidCase:
    try:
        case = _Line.model_validate(fields).record()
    except ValidationError as error:
        return InvalidCase(
            name_or_place(fields.get("case_id"), place), f"{place}: {first_fault(error, _KNOWN)}"
        )
    inconsistency = _inconsistency(case)
    return InvalidCase(case.id, f"{place}: {inconsistency}") if inconsistency else case


def _inconsistency(case: Case) -> str:
    seen: set[str] = set()
    for sentence_id in case.sentence_ids:
        if sentence_id in seen:
            return f"sentence id {sentence_id!r} is used twice"
        seen.add(sentence_id)
    unknown = next((id_ for id_ in case.gold.labels or () if id_ not in seen), None)
    return "" if unknown is None else f"labels: {unknown!r} is not the id of a sentence"


def _fields(case: Case) -> dict[str, object]:
    optional = {
        "specialty": case.specialty,
        "labels": dict(case.gold.labels or {}),
        "answer": case.gold.answer,
        "intent": case.gold.intent and intent_fields(case.gold.intent),
        "as_of": case.as_of,
        "verdict": case.gold.verdict,
        "label_source": "weak" if case.gold.labels and case.gold.label_source == "weak" else None,
    }
    return {
        "case_id": case.id,
        "narrative": case.narrative,
        "question": case.question,
        "sentences": _sentence_fields(case),
        **{name: value for name, value in optional.items() if value},
    }


def _sentence_fields(case: Case) -> list[str] | list[dict[str, str]]:
    if case.sentence_ids == tuple(str(number) for number in range(1, len(case.sentences) + 1)):
        return [sentence.text for sentence in case.sentences]
    return [{"id": sentence.id, "text": sentence.text} for sentence in case.sentences]
