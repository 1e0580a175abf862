"""Questions of which it is known which documents are relevant, whole or in parts.

Parts share no relevant document, so that one part can test what another taught.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple, Self

import numpy as np
from pydantic import AfterValidator, BaseModel
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cases.formats.json_border import Identifier, Line, not_empty
from cases.formats.json_lines import UsedIds, read_json_lines
from cases.load import find_cases
from cases.records import InvalidCase
from cases.texts import hash_order, plural
from serving.policy.gate import hold_for
from storage.errors import InputError

_JSON_LINES = (".jsonl", ".jsonl.gz")
_PART = re.compile(r"([1-9]\d*)/([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with the ids of its relevant documents, at least one and none twice."""

    id: str
    text: str
    relevant: tuple[str, ...]


class LoadedQuestions(NamedTuple):
    """Questions of files; `unjudged` counts questions without a relevant document, which are left out."""

    questions: list[JudgedQuestion]
    unjudged: int


class Part(NamedTuple):
    """The `number`th of `of` parts, from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str, option: str = "--part") -> Self:
        """Read `1/2`; `option` is where it was given.

        Raises:
            InputError: It is malformed, or the part does not exist.
        """
        form = _PART.fullmatch(text)
        number, of = map(int, form.groups()) if form else (1, 0)
        if number > of:
            raise InputError(option, f"invalid part: {text!r}", "Give its number and the total, such as 1/2")
        return cls(number, of)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


class _Claim(BaseModel):
    id: Identifier
    claim: Annotated[Line, AfterValidator(not_empty)]
    cited_doc_ids: list[Identifier] = []


def load_questions(
    paths: Sequence[Path], *, years: int | None = None, part: Part | None = None, limit: int | None = None
) -> LoadedQuestions:
    """Read BioASQ questions or claims of SciFact, in the order of the paths.

    With `years` only those of the newest year and this many years before it, by their BioASQ ids; of these
    only a part, and of that at most so many.

    Raises:
        InputError: A file cannot be read, an id is used twice, or no question is left.
    """
    hold_for(paths)
    found: dict[str, JudgedQuestion] = {}
    unjudged = 0
    for path, question in ((given, one) for given in paths for one in _read(given)):
        if question.id in found:
            raise InputError(path, f"question {question.id!r} is there twice", "Keep one of them")
        if question.relevant:
            found[question.id] = question
        else:
            unjudged += 1
    names = ", ".join(map(str, paths))
    if not found:
        raise InputError(names, "no question in it names a relevant document")
    kept = list(found) if years is None else of_recent_years(found, years)
    if not kept:
        raise InputError(names, "no question id in it contains a year", "Leave out --years")
    questions = [found[id_] for id_ in kept]
    if part is not None:
        questions = questions_of(questions, part)
    return LoadedQuestions(questions[:limit], unjudged)


def _read(path: Path) -> Iterator[JudgedQuestion]:
    if not path.exists():
        raise InputError(path, "no such file or folder")
    if path.name.endswith(_JSON_LINES):
        first = next(read_json_lines(path), None)
        if first is not None and {"claim", "cited_doc_ids"} <= first.fields.keys():
            yield from _claims(path)
            return
    for case in find_cases([path]):
        if isinstance(case, InvalidCase):
            raise InputError(*case.fault.split(": ", 1))
        documents = case.biomedical.documents if case.biomedical else ()
        yield JudgedQuestion(case.id, case.question, tuple(dict.fromkeys(documents)))


def _claims(path: Path) -> Iterator[JudgedQuestion]:
    seen = UsedIds()
    for line in read_json_lines(path):
        claim = line.read_as(_Claim)
        seen.add(line, "id", claim.id)
        yield JudgedQuestion(claim.id, claim.claim, tuple(dict.fromkeys(claim.cited_doc_ids)))


_OBJECT_ID = re.compile(r"[0-9a-fA-F]{24}")


def question_year(question_id: str) -> int | None:
    """The year of a Mongo ObjectId, whose first eight hexadecimal digits are seconds since 1970 (UTC).

    Returns:
        None where the id is not an ObjectId: 24 hexadecimal digits.
    """
    if not _OBJECT_ID.fullmatch(question_id):
        return None
    return datetime.fromtimestamp(int(question_id[:8], 16), UTC).year


def of_recent_years(question_ids: Iterable[str], years: int) -> list[str]:
    """Keep the questions of the newest year and of so many years before it, in their order.

    An id without a year is left out: nothing says that its question is recent.
    """
    dated = {id_: year for id_ in question_ids if (year := question_year(id_)) is not None}
    newest = max(dated.values(), default=0)
    return [id_ for id_, year in dated.items() if year >= newest - years]


def questions_of(questions: Sequence[JudgedQuestion], part: Part) -> list[JudgedQuestion]:
    """The questions of a part, in their order.

    Questions that share a relevant document, or are linked by others that do, stay together. These groups are
    ordered by a hash of their ids, so that the order of files has no influence, and cut into parts of about
    as many questions.

    Raises:
        InputError: The part holds no question.
    """
    group_of = _groups(questions)
    names: dict[int, str] = {}
    for question, group in zip(questions, group_of, strict=True):
        names[group] = min(question.id, names.get(group, question.id))
    sizes = np.bincount(group_of)
    ordered = hash_order(names, lambda group: names[group])
    # How many questions come in groups before each.
    before = np.cumsum(sizes[ordered]) - sizes[ordered]
    part_of = zip(ordered, before * part.of // len(questions), strict=True)
    within = {group for group, place in part_of if place == part.number - 1}
    found = [question for question, group in zip(questions, group_of, strict=True) if group in within]
    if not found:
        raise InputError(f"part {part}", f"it holds none of {plural(len(questions), 'question')}")
    return found


def _groups(questions: Sequence[JudgedQuestion]) -> list[int]:
    """The group of each question: components of the graph of questions and their documents."""
    column = {id_: place for place, id_ in enumerate({id_ for one in questions for id_ in one.relevant})}
    pairs = [(row, len(questions) + column[id_]) for row, one in enumerate(questions) for id_ in one.relevant]
    nodes = len(questions) + len(column)
    rows, columns = zip(*pairs, strict=True)
    graph = coo_array((np.ones(len(pairs)), (rows, columns)), shape=(nodes, nodes))
    _, labels = connected_components(graph, directed=False)
    return [int(label) for label in labels[: len(questions)]]
