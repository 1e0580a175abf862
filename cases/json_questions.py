"""Case files that end in `.json`: which data set they are of, BioASQ or PubMedQA, their content tells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cases.bioasq_json import bioasq_cases, is_bioasq
from cases.errors import InputError
from cases.files import opened
from cases.json_border import Identifier, Line, first_fault, not_empty
from cases.records import Case, Gold, InvalidCase, Verdict

_VERDICTS: Mapping[str, Verdict] = {"yes": "yes", "no": "no", "maybe": "unknown"}


def pubmedqa_cases(path: Path, questions: object) -> Iterator[Case | InvalidCase]:
    """The questions of a file in its order; a bad one does not stop the others.

    The year of a question's article becomes the last year that its evidence may be from.

    Args:
        path: The file, for messages.
        questions: Its content.

    Raises:
        InputError: The content is no set of questions.
    """
    remedy = (
        'Case files that end in .json are PubMedQA: {"PMID": {"QUESTION": ...}}, or BioASQ: {"questions":'
        ' [{"id", "body", "type"}]}; keys are given with --key'
    )
    if not isinstance(questions, dict) or not questions:
        raise InputError(path, "no question of PubMedQA or BioASQ in it", remedy)
    if not any(isinstance(entry, dict) and "QUESTION" in entry for entry in questions.values()):
        raise InputError(path, "none of its entries has a QUESTION, and it has no questions", remedy)
    for case_id, entry in questions.items():
        yield _case(case_id, entry)


class _Entry(BaseModel):
    # Other fields of the official form are left unread on purpose.
    model_config = ConfigDict(extra="ignore")

    case_id: Identifier
    QUESTION: Annotated[Line, AfterValidator(not_empty)]
    YEAR: Annotated[
        Annotated[int, Field(ge=1500, le=3000)] | None,
        BeforeValidator(lambda year: int(year) if isinstance(year, str) and year.isdigit() else year or None),
    ] = None
    final_decision: Literal["yes", "no", "maybe"] | None = None


def _case(case_id: str, entry: object) -> Case | InvalidCase:
    if not isinstance(entry, dict):
        return InvalidCase(case_id, f"{case_id}: not a JSON object")
    try:
        read = _Entry.model_validate({**entry, "case_id": case_id})
    except ValidationError as error:
        return InvalidCase(case_id, f"{case_id}: {first_fault(error, {'': _Entry.model_fields})}")
    verdict = None if read.final_decision is None else _VERDICTS[read.final_decision]
    return Case(
        id=read.case_id,
        narrative="",
        question=read.QUESTION,
        sentences=(),
        as_of=read.YEAR,
        gold=Gold(verdict=verdict),
    )


def read_json_questions(path: Path) -> Iterator[Case | InvalidCase]:
    """Read the questions of `path` in file order: BioASQ's under `questions`, else PubMedQA's by their ids.

    Raises:
        InputError: The file cannot be read, is no JSON, or is no set of questions.
    """
    content = read_json(path)
    yield from bioasq_cases(path, content) if is_bioasq(content) else pubmedqa_cases(path, content)


def read_json(path: Path) -> object:
    """The content of a JSON file.

    Raises:
        InputError: The file cannot be read or is no JSON.
    """
    with opened(path) as file:
        content = file.read()
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"cannot be read as JSON: {error}") from None
