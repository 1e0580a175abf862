"""BioASQ (Tsatsaronis et al. 2015): test sets and training sets of task b in their JSON form.

Only required fields are read; others, such as concepts and triples, are ignored. A test set
lacks answers, one of phase A documents and snippets too.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeGuard, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from cases.biomedical import BiomedicalQuestion, ExactAnswer, QuestionType, Snippet, document_id
from cases.formats.json_border import (
    Identifier,
    Line,
    Text,
    encodable,
    fault,
    first_fault,
    name_or_place,
    not_empty,
)
from cases.records import Case, Gold, InvalidCase
from storage.errors import InputError

QUESTION_TYPES: tuple[QuestionType, ...] = get_args(QuestionType)


def is_bioasq(content: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the content of a JSON file is a set of BioASQ's questions."""
    return isinstance(content, Mapping) and "questions" in content


def bioasq_cases(path: Path, content: Mapping[str, Any]) -> Iterator[Case | InvalidCase]:
    """The questions of a file in its order; a bad one does not stop the others.

    Raises:
        InputError: It lacks a list of questions.
    """
    questions = content["questions"]
    if not isinstance(questions, list) or not questions:
        kind = "empty" if isinstance(questions, list) else f"no list but {type(questions).__name__}"
        remedy = 'BioASQ files are {"questions": [{"id": ..., "body": ..., "type": ...}]}'
        raise InputError(path, f"questions: {kind}", remedy)
    for number, entry in enumerate(questions, start=1):
        yield _case(number, entry)


def yes_or_no(value: object) -> object:
    """`yes` or `no` out of what BioASQ's files have: capitals, a full stop, a list of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value.strip().rstrip(".!").lower() if isinstance(value, str) else value


def _known_type(value: object) -> object:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and (tidy := value.strip().lower().replace("/", "")) in QUESTION_TYPES:
        return tidy
    nearest = difflib.get_close_matches(value.lower() if isinstance(value, str) else "", QUESTION_TYPES, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise fault(f"{reprlib.repr(value)} is not one of {', '.join(QUESTION_TYPES)}{hint}")


def _list_or_nothing(value: object) -> object:
    return [] if value is None else value


def _texts(value: object) -> object:
    return [] if value is None else [value] if isinstance(value, str) else value


_Document = Annotated[Identifier, AfterValidator(document_id), AfterValidator(not_empty)]


class _Snippet(BaseModel):
    model_config = ConfigDict(extra="ignore")

    document: _Document
    text: Annotated[str, AfterValidator(encodable)] = ""  # with its blanks, as offsets count them
    beginSection: Annotated[str, AfterValidator(encodable)] | None = None
    endSection: str | None = None
    offsetInBeginSection: int | None = None
    offsetInEndSection: int | None = None

    def record(self) -> Snippet:
        """Offsets that no text can have count as not recorded, and so does an end in another section."""
        section, begin, end = self.beginSection or "", self.offsetInBeginSection, self.offsetInEndSection
        fits = begin is not None and end is not None and 0 <= begin < end
        if not fits or not section or self.endSection not in (None, section):
            begin = end = None
        return Snippet(self.document, self.text, section, begin, end)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: Identifier
    body: Annotated[Line, AfterValidator(not_empty)]
    type: Annotated[QuestionType | None, BeforeValidator(_known_type)] = None
    documents: Annotated[list[_Document], BeforeValidator(_list_or_nothing)] = []
    snippets: Annotated[list[_Snippet], BeforeValidator(_list_or_nothing)] = []
    exact_answer: Any = None
    ideal_answer: Annotated[list[Text], BeforeValidator(_texts)] = []

    @model_validator(mode="after")
    def _exact_answer_fits_the_type(self) -> _Entry:
        # A question without type says nothing of the form of its answer.
        read = None if self.type in (None, "summary") else _exact_answer(self.type, self.exact_answer)
        self.exact_answer = read
        return self


def _case(number: int, entry: object) -> Case | InvalidCase:
    place = f"question {number}"
    if not isinstance(entry, dict):
        return InvalidCase(place, f"{place}: not a JSON object")
    try:
        read = _Entry.model_validate(entry)
    except ValidationError as error:
        return InvalidCase(name_or_place(entry.get("id"), place), f"{place}: {first_fault(error)}")
    return Case(
        id=read.id,
        narrative="",
        question=read.body,
        sentences=(),
        biomedical=BiomedicalQuestion(
            type=read.type,
            documents=tuple(dict.fromkeys(read.documents)),
            # Including empty and repeated ones: the node that answers from them reports those.
            snippets=tuple(snippet.record() for snippet in read.snippets),
        ),
        gold=Gold(
            exact_answer=read.exact_answer,
            ideal_answers=tuple(dict.fromkeys(filter(None, read.ideal_answer))) or None,
        ),
    )


def _exact_answer(kind: QuestionType | None, value: object) -> ExactAnswer | None:
    if value is None or value in ("", []):
        return None
    if kind == "yesno":
        match yes_or_no(value):
            case "yes":
                return "yes"
            case "no":
                return "no"
        raise fault(f"exact_answer: {reprlib.repr(value)} is neither yes nor no")
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise fault(f"exact_answer: {reprlib.repr(value)} is not a list of texts")
    if kind == "factoid" and all(isinstance(item, str) for item in items):
        # Training sets write the one answer of a factoid as a plain list of its synonyms.
        items = [items]
    entries = (_synonyms(item) for item in items)
    return tuple(dict.fromkeys(filter(None, entries))) or None


def _synonyms(item: object) -> tuple[str, ...]:
    names = []
    for name in item if isinstance(item, list) else [item]:
        if not isinstance(name, str | int | float):
            raise fault(f"exact_answer: {reprlib.repr(item)} is neither a text nor a list of texts")
        names.append(encodable(str(name)).strip())
    return tuple(dict.fromkeys(filter(None, names)))
