"""Questions cut into parts that share no relevant document, so that one part can test what another taught."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cases.errors import InputError

if TYPE_CHECKING:
    from evals.search.questions import JudgedQuestion

_FORM = re.compile(r"([1-9]\d*)/([1-9]\d*)")


class Part(NamedTuple):
    """The `number`th of `of` parts, from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str, option: str = "--part") -> Self:
        """Read `1/2`; `option` is where it was given.

        Raises:
            InputError: It is something else, or there is no such part.
        """
        form = _FORM.fullmatch(text)
        number, of = map(int, form.groups()) if form else (1, 0)
        if number > of:
            raise InputError(option, f"{text!r} is no part", "Give its number and how many, such as 1/2")
        return cls(number, of)

    def __str__(self) -> str:
        """As it is read."""
        return f"{self.number}/{self.of}"


def questions_of(questions: Sequence[JudgedQuestion], part: Part) -> list[JudgedQuestion]:
    """The questions of a part, in their order.

    Questions that share a relevant document, or are linked by others that do, stay together. These groups are
    ordered by a hash of their ids, so that the order of files has no influence, and cut into parts of about
    as many questions.

    Args:
        questions: All of them; ids are unique.
        part: Which are wanted.

    Raises:
        InputError: The part holds no question.
    """
    group_of = _groups(questions)
    names: dict[int, str] = {}
    for question, group in zip(questions, group_of, strict=True):
        names[group] = min(question.id, names.get(group, question.id))
    sizes = np.bincount(group_of)
    ordered = sorted(names, key=lambda group: hashlib.sha256(names[group].encode()).digest())
    before = np.cumsum(sizes[ordered]) - sizes[ordered]
    within = {
        group for group, place in zip(ordered, before, strict=True) if _is_in(part, place, len(questions))
    }
    found = [question for question, group in zip(questions, group_of, strict=True) if group in within]
    if not found:
        raise InputError(f"part {part}", f"it holds none of {len(questions):,} questions")
    return found


def _is_in(part: Part, before: int, questions: int) -> bool:
    """Whether a group belongs to a part; `before` is how many of all questions come in groups before it."""
    return int(before) * part.of // questions == part.number - 1


def _groups(questions: Sequence[JudgedQuestion]) -> list[int]:
    """The group of each question: components of the graph of questions and their documents."""
    column = {id_: place for place, id_ in enumerate({id_ for one in questions for id_ in one.relevant})}
    pairs = [(row, len(questions) + column[id_]) for row, one in enumerate(questions) for id_ in one.relevant]
    nodes = len(questions) + len(column)
    rows, columns = zip(*pairs, strict=True)
    graph = coo_array((np.ones(len(pairs)), (rows, columns)), shape=(nodes, nodes))
    _, labels = connected_components(graph, directed=False)
    return [int(label) for label in labels[: len(questions)]]
