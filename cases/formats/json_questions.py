"""Case files that end in `.json`: BioASQ or PubMedQA, detected by content."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cases.biomedical import pubmed_address
from cases.formats.bioasq_json import bioasq_cases, is_bioasq
from cases.formats.json_border import Identifier, Line, Text, first_fault, name_or_place, not_empty
from cases.records import Case, Gold, InvalidCase, Verdict
from storage import unique_keys
from storage.errors import InputError
from storage.files import opened, whole

_MAX_BYTES = 1 << 30
"""All artificial questions of PubMedQA take half of it."""

_START = 1 << 20
"""Bytes; the first question of a set is in them."""

_VERDICTS: Mapping[str, Verdict] = {"yes": "yes", "no": "no", "maybe": "unknown"}


def pubmedqa_cases(path: Path, questions: object) -> Iterator[Case | InvalidCase]:
    """The questions of a file in its order; a bad one does not stop the others.

    The year of a question's article becomes the last year that its evidence may be from.

    Raises:
        InputError: The content is not a set of questions.
    """
    remedy = (
        'Case files that end in .json are PubMedQA: {"PMID": {"QUESTION": ...}}, or BioASQ: {"questions":'
        ' [{"id", "body", "type"}]}; keys are given with --key'
    )
    if not isinstance(questions, dict) or not questions:
        raise InputError(path, "no question of PubMedQA or BioASQ in it", remedy)
    if not any(isinstance(entry, dict) and "QUESTION" in entry for entry in questions.values()):
        raise InputError(path, "none of its entries has a QUESTION, and it has no questions", remedy)
    for number, (case_id, entry) in enumerate(questions.items(), start=1):
        yield _case(number, case_id, entry)


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


def _case(number: int, case_id: str, entry: object) -> Case | InvalidCase:
    name = name_or_place(case_id, f"question {number}")
    if not isinstance(entry, dict):
        return InvalidCase(name, f"{name}: not a JSON object")
    try:
        read = _Entry.model_validate({**entry, "case_id": case_id})
    except ValidationError as error:
        return InvalidCase(name, f"{name}: {first_fault(error, {'': _Entry.model_fields})}")
    verdict = None if read.final_decision is None else _VERDICTS[read.final_decision]
    return Case(
        id=read.case_id,
        narrative="",
        question=read.QUESTION,
        sentences=(),
        as_of=read.YEAR,
        gold=Gold(verdict=verdict),
    )


class _Answered(_Entry):
    CONTEXTS: list[Text] = []
    LONG_ANSWER: Text = ""


class YesNoQuestions(NamedTuple):
    """Questions of PubMedQA in the form of BioASQ, by their ids.

    Attributes:
        undecided: How many were left out: without a decision, or with `maybe`, which BioASQ does not have.
        unsupported: How many were left out for lack of a context.
    """

    questions: dict[str, dict[str, object]]
    undecided: int
    unsupported: int


def pubmedqa_as_bioasq(path: Path) -> YesNoQuestions:
    """The questions of a PubMedQA file that are answered yes or no, each with its contexts as snippets.

    The long answer becomes the ideal one, not a snippet.

    Raises:
        InputError: The file cannot be read, or a question in it is wrong.
    """
    content = read_json(path)
    if is_bioasq(content):
        raise InputError(path, "these are questions of BioASQ already", "Give them to `evigraph run bioasq`")
    broken = next((case for case in pubmedqa_cases(path, content) if isinstance(case, InvalidCase)), None)
    if broken is not None:
        raise InputError(path, broken.fault)
    assert isinstance(content, dict)
    undecided = unsupported = 0
    questions: dict[str, dict[str, object]] = {}
    for case_id, entry in content.items():
        try:
            read = _Answered.model_validate({**entry, "case_id": case_id})
        except ValidationError as error:
            raise InputError(path, f"{case_id}: {first_fault(error)}") from None
        contexts = [context for context in read.CONTEXTS if context]
        if read.final_decision not in ("yes", "no"):
            undecided += 1
        elif not contexts:
            unsupported += 1
        else:
            questions[read.case_id] = _as_bioasq(read, contexts)
    return YesNoQuestions(questions, undecided, unsupported)


def _as_bioasq(read: _Answered, contexts: Sequence[str]) -> dict[str, object]:
    address = pubmed_address(read.case_id)
    where = {"document": address, "beginSection": "abstract", "endSection": "abstract"}
    return {
        "id": read.case_id,
        "body": read.QUESTION,
        "type": "yesno",
        "documents": [address],
        "snippets": [{"text": text, **where} for text in contexts],
        "exact_answer": read.final_decision,
        **({"ideal_answer": [read.LONG_ANSWER]} if read.LONG_ANSWER else {}),
    }


def holds_questions(path: Path) -> bool:
    """Whether a JSON file begins as a set of questions, and not as a key, a submission or something else.

    Raises:
        InputError: The file cannot be read.
    """
    with opened(path) as file:
        start = file.read(_START).removeprefix(codecs.BOM_UTF8).lstrip()
    return start.startswith(b"{") and (b'"QUESTION"' in start or b'"questions"' in start)


def read_json_questions(path: Path) -> Iterator[Case | InvalidCase]:
    """Read the questions of `path` in file order: BioASQ's under `questions`, else PubMedQA's by their ids.

    Raises:
        InputError: The file cannot be read, is not JSON, or is not a set of questions.
    """
    content = read_json(path)
    yield from bioasq_cases(path, content) if is_bioasq(content) else pubmedqa_cases(path, content)


def read_json(path: Path) -> object:
    """The content of a JSON file.

    Raises:
        InputError: The file cannot be read, is too long, or is not JSON.
    """
    content = whole(path, _MAX_BYTES)
    try:
        return unique_keys.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"cannot be read as JSON: {error}") from None
