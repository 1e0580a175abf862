"""Types of questions, settings of exact answers, and the replies that have them, read forgivingly.

BioASQ takes at most five entries of a factoid and a hundred of a list, each of those at most a hundred
characters long, and reads one synonym of each (Verma et al. 2025, section 3.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

from pydantic import Field

from cases.biomedical import QuestionType
from cases.records import Case
from nodes.core.failure import NodeFailure
from nodes.core.json_reply import choice_schema, object_schema
from nodes.core.recipe import RecipeSection
from serving.protocol.errors import InvalidReply
from serving.protocol.reply import ReplyFormat, first_json_object

QUESTION_TYPES: tuple[QuestionType, ...] = get_args(QuestionType)


def type_of(case: Case) -> QuestionType | None:
    """The type, None where the case gives none."""
    return case.biomedical.type if case.biomedical else None


def demand_type(case: Case) -> QuestionType:
    """The type of a question that is to be answered.

    Raises:
        NodeFailure: The case gives none, so the form of its answer is unknown.
    """
    found = type_of(case)
    if found is None:
        raise NodeFailure(
            "invalid_input", f"the question has no type; give it one of {', '.join(QUESTION_TYPES)}"
        )
    return found


class ExactSettings(RecipeSection):
    """Phase B: answers in the form that a question's type asks for (section 3.3).

    Attributes:
        style: 1 to 3, of queries and instructions.
        shots: Answered questions of the same type that the prompt shows; the paper's 1 or 10.
        votes: Samples; more than one are counted against each other.
        threshold: Share of the votes that an entry of a list needs.
        default_yes: Whether a reply that says neither yes nor no counts as yes, with a flag; otherwise that
            vote is missing.
        max_snippet_characters: Of the snippets of a question together, and of each shot's; snippets beyond
            are left out from the end, and said.
    """

    style: Literal[1, 2, 3] = 2
    shots: int = Field(1, ge=0, le=10)
    votes: int = Field(1, ge=1, le=25)
    threshold: float = Field(0.5, gt=0, le=1)
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int = Field(256, ge=16)
    default_yes: bool = False
    max_snippet_characters: int = Field(24_000, ge=500)

    @property
    def hints(self) -> bool:
        """Query template 2: ideal answers are given the exact one, and shots show whole lists."""
        return self.style != 1

    @property
    def instructions(self) -> Literal[1, 2]:
        return 2 if self.style == 3 else 1

    @property
    def sampled_at(self) -> float:
        """The temperature: 0 for one vote, 0.7 for several, where the recipe does not say."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.votes == 1 else 0.7


EXACT_REPLY = "exact_answer"
"""Name of the reply's format."""

FIELD = "answer"
MAX_ENTRIES = {"factoid": 5, "list": 100}
MAX_ENTRY_CHARACTERS = 100
"""Characters of an entry of a list; and of any line of a reply that is read without JSON."""

Exact = str | list[list[str]]
"""Yes or no, or entries that are each a list of synonyms."""

_YES_OR_NO = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_BETWEEN_ENTRIES = re.compile(r"[\n\r;]+")
# A sign counts only before white space: `5-HT` and `1,25-dihydroxyvitamin D` begin with no number of a list.
_BULLET = re.compile(r"(?:[-*+\u2022\u2013\u2014](?:\s+|$)|(?:\(?\d{1,3}[.)]|\(?[a-z]\))\s+)+")
_DOUBLE_QUOTES = '"`\u201c\u201d\u00ab\u00bb'
_SINGLE_QUOTES = ("''", "\u2018\u2019")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def exact_reply(type_: QuestionType) -> ReplyFormat[Exact]:
    """The format of a reply on a question that has an exact answer.

    Raises:
        ValueError: A summary has none.
    """
    if type_ == "summary":
        raise ValueError("a summary question has no exact answer")
    if type_ == "yesno":
        return ReplyFormat(
            EXACT_REPLY, object_schema({FIELD: choice_schema(["yes", "no"])}), _parse, _lenient
        )
    most, longest = MAX_ENTRIES[type_], MAX_ENTRY_CHARACTERS if type_ == "list" else None

    def parse(text: str) -> Exact:
        return _entries(_json_texts(text), most, longest)

    def lenient(text: str) -> Exact:
        try:
            return parse(text)
        except InvalidReply:
            return _entries(_loose_texts(text), most, longest)

    strings = {"type": "array", "items": {"type": "string"}}
    return ReplyFormat(EXACT_REPLY, object_schema({FIELD: strings}), parse, lenient)


def normalise(texts: Iterable[str], most: int, longest: int | None) -> list[str]:
    """Entries of an answer, in their order.

    Args:
        texts: Each may hold several, separated by line breaks or semicolons.
        most: Entries that are kept.
        longest: Characters of an entry that are kept; None keeps all.

    Returns:
        Without bullets, numbers of a list and quotation marks; of those that differ in case alone the first.
    """
    found: dict[str, str] = {}
    for text in texts:
        for part in _BETWEEN_ENTRIES.split(text):
            entry = _bare(part)[:longest].strip()
            if entry:
                found.setdefault(entry.casefold(), entry)
    return list(found.values())[:most]


def _bare(text: str) -> str:
    bare = " ".join(text.split())
    if bullet := _BULLET.match(bare):
        bare = bare[bullet.end() :]
    quotes = sum(letter in _DOUBLE_QUOTES for letter in bare)
    if quotes == 1:
        # One of a pair that a split has separated.
        return bare.strip(_DOUBLE_QUOTES).strip()
    around = bare[:1] + bare[1:][-1:]
    if around in _SINGLE_QUOTES or (len(around) > 1 and all(one in _DOUBLE_QUOTES for one in around)):
        return bare[1:-1].strip()
    return bare


def _parse(text: str) -> Exact:
    said = first_json_object(text).get(FIELD)
    if isinstance(said, bool):
        return "yes" if said else "no"
    return _yes_or_no(said) if isinstance(said, str) else _yes_or_no("")


def _lenient(text: str) -> Exact:
    try:
        return _parse(text)
    except InvalidReply:
        return _yes_or_no(text)


def _yes_or_no(text: str) -> str:
    found = _YES_OR_NO.search(text)
    if found is None:
        raise InvalidReply(f"{FIELD!r} must be yes or no")
    return found[1].lower()


def _entries(texts: Iterable[str], most: int, longest: int | None) -> Exact:
    entries = normalise(texts, most, longest)
    if not entries:
        raise InvalidReply(f"{FIELD!r} names nothing")
    return [[entry] for entry in entries]


def _json_texts(text: str) -> list[str]:
    said = first_json_object(text).get(FIELD)
    given = said if isinstance(said, list) else [said]
    texts = [_first(one) for one in given]
    if None in texts:
        raise InvalidReply(f"{FIELD!r} must be a list of short texts")
    return [one for one in texts if one is not None]


def _first(entry: Any) -> str | None:
    """An entry's first synonym, as BioASQ reads it; None for other types than text."""
    if isinstance(entry, list):
        return _first(entry[0]) if entry and not isinstance(entry[0], list) else None
    if isinstance(entry, bool) or not isinstance(entry, str | int | float):
        return None
    return str(entry)


def _loose_texts(text: str) -> list[str]:
    """Texts of a reply that is not valid JSON or is truncated: quoted strings, else its lines."""
    start = text.find("[")
    if start >= 0 and (quoted := _QUOTED.findall(text, start)):
        return [one.replace('\\"', '"') for one in quoted]
    if start >= 0 or "{" in text:
        return []
    return [part for part in _BETWEEN_ENTRIES.split(text) if len(part.strip()) <= MAX_ENTRY_CHARACTERS]


def exact_words(answer: str | Sequence[Sequence[str]] | None) -> str:
    """An exact answer on one line; empty for one that is missing."""
    if answer is None or isinstance(answer, str):
        return answer or ""
    return "; ".join(synonyms[0] for synonyms in answer)
