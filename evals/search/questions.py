"""Questions of which it is known which documents are relevant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel

from cases.errors import InputError
from cases.json_border import Identifier, Line, not_empty
from cases.load import find_cases
from cases.records import InvalidCase
from evals.search.parts import Part, questions_of
from ranking.readers.json_lines import UsedIds, read_json_lines

_JSON_LINES = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with the ids of its relevant documents, at least one and none twice."""

    id: str
    text: str
    relevant: tuple[str, ...]


class LoadedQuestions(NamedTuple):
    """What files hold; `unjudged` counts questions without a relevant document, which are left out."""

    questions: list[JudgedQuestion]
    unjudged: int


class _Claim(BaseModel):
    id: Identifier
    claim: Annotated[Line, AfterValidator(not_empty)]
    cited_doc_ids: list[Identifier] = []


def load_questions(
    paths: Sequence[Path], *, years: int | None = None, part: Part | None = None, limit: int | None = None
) -> LoadedQuestions:
    """Read questions in the order of the paths.

    Args:
        paths: BioASQ questions, or claims of SciFact (JSON lines with `claim` and `cited_doc_ids`).
        years: Only questions of the newest year and so many years before it, as their BioASQ ids tell.
        part: Only this part of those.
        limit: Only the first so many of what is left.

    Raises:
        InputError: A file cannot be read, an id is used twice, or no question is left.
    """
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
        raise InputError(names, "no id of a question in it tells a year", "Leave out --years")
    questions = [found[id_] for id_ in kept]
    if part is not None:
        questions = questions_of(questions, part)
    return LoadedQuestions(questions[:limit], unjudged)


def _read(path: Path) -> Iterator[JudgedQuestion]:
    if not path.exists():
        raise InputError(path, "no such file or folder")
    if path.name.endswith(_JSON_LINES) and _are_claims(path):
        yield from _claims(path)
        return
    for case in find_cases([path]):
        if isinstance(case, InvalidCase):
            raise InputError(*case.fault.split(": ", 1))
        documents = case.biomedical.documents if case.biomedical else ()
        yield JudgedQuestion(case.id, case.question, tuple(dict.fromkeys(documents)))


def _are_claims(path: Path) -> bool:
    line = next(read_json_lines(path), None)
    return line is not None and {"claim", "cited_doc_ids"} <= line.fields.keys()


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
        None where the id is no ObjectId: 24 hexadecimal digits.
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
