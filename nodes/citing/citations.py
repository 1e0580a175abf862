"""Citations in the text of an answer: `|3|`, `|3, 7|`. Pure functions.

`strict_compat` reproduces the released code of heiDS: it checks the form of a citation but not whether its
sentence exists, and does not move a citation within a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import Field

from nodes.answer.answer_rules import AnswerRules, split_sentences
from nodes.core.recipe import Recipe, RecipeSection
from ranking.attribution import Weights

_SEPARATORS = re.compile(r"[,;\s]+")
_NUMBERS = re.compile(r"\s*\d+(?:\s*[-\u2013,;\s]\s*\d+)*\s*")
_BRACKETS = re.compile(rf"[ \t]*(?:\[{_NUMBERS.pattern}\]|\({_NUMBERS.pattern}\))")
_CUT_OFF = re.compile(r"\|[\s\w,;-]{0,40}$")
"""A citation that the token limit has cut; which id it was to be is unknown."""

_BETWEEN_LINES = " \t\r\n-*\u2022\u2013"
_BULLET = re.compile(rf"^[{re.escape(_BETWEEN_LINES)}]+")
_WORD = re.compile(r"\w")
_CLOSERS = "\"')]\u201d\u2019"
_ENDS = (".", "!", "?")
_LONGEST = 200
"""Characters between two pipes that are taken for a citation; more is a text that has pipes in it."""


NO_CITATIONS = {"no_citations": "the answer cites no sentence that it was shown"}
"""The flag of a node that gives an answer its citations."""


class CitationSettings(RecipeSection):
    """How sentences of an answer come to their citations (heiDS, section 2.5).

    Attributes:
        method: `post_retrieval` lets the model cite the sentences it was shown; `post_generation` lets it
            write without citations and attributes its sentences afterwards.
        count_citations: Whether citations count as words of the answer's limit; the scorer of 2025 counts
            the words alone.
        threshold: A sentence is cited from this similarity on, in `post_generation`.
        weights: Of the three parts of that similarity.
    """

    method: Literal["post_retrieval", "post_generation"] = "post_retrieval"
    count_citations: bool = False
    threshold: float = Field(0.3, ge=0, le=1)
    weights: Weights = Weights()


def attributes(recipe: Recipe) -> bool:
    """Whether citations are added to an answer written without them."""
    return recipe.section(CitationSettings).method == "post_generation"


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """One sentence of an answer without its citations, and the ids that it cites, in note order.

    Attributes:
        whole: Whether it ends as a sentence does, or with a citation.
    """

    text: str
    cited: tuple[str, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer taken apart.

    Attributes:
        unknown: Cited ids that were not shown, in their order, each once.
        malformed: Number of citations that name no id at all.
    """

    sentences: tuple[CitedSentence, ...]
    unknown: tuple[str, ...] = ()
    malformed: int = 0

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def cited(self) -> frozenset[str]:
        return frozenset(id_ for sentence in self.sentences for id_ in sentence.cited)


class _Mark(NamedTuple):
    """A citation: its position in the text without citations, and its content between pipes."""

    place: int
    ids: tuple[str, ...]


def read_citations(text: str, shown: Sequence[str]) -> CitedAnswer:
    """Take an answer apart into sentences with their citations.

    All citations of a sentence belong to its end: they are merged, in note order, each once. Ids that were
    not shown are dropped, and so are citations that name none. Other pipes become slashes. A
    sentence is whole that ends as a sentence does, or in a citation.

    Args:
        text: An answer; a line break ends a sentence.
        shown: Ids that the prompt showed, in note order.
    """
    order = {id_: place for place, id_ in enumerate(shown)}
    text, brackets = _without_brackets(text)
    bare, marks = _take_out(text, order)
    malformed = brackets + sum(not mark.ids for mark in marks)
    unknown = dict.fromkeys(id_ for mark in marks for id_ in mark.ids if id_ not in order)
    sentences = []
    for start, end, sentence in _sentences(bare):
        of_it = [mark for mark in marks if start < mark.place <= end]
        cited = {id_ for mark in of_it for id_ in mark.ids if id_ in order}
        if _WORD.search(sentence):
            in_order = tuple(sorted(cited, key=order.__getitem__))
            whole = _is_ended(sentence) or any(mark.ids and mark.place >= end for mark in of_it)
            sentences.append(CitedSentence(_with_end(" ".join(sentence.split())), in_order, whole))
    return CitedAnswer(tuple(sentences), tuple(unknown), malformed)


def keep_within(
    sentences: Sequence[CitedSentence], rules: AnswerRules, *, count_citations: bool
) -> list[CitedSentence]:
    """Whole sentences with their citations, up to the first that goes over a limit.

    A last sentence that is not whole is left out. A single sentence is never left out: it is cut by words.

    Args:
        sentences: Of the answer.
        rules: With the limits.
        count_citations: Whether `|3, 7|` counts too, as two words.
    """
    whole = [*sentences[:-1], *(one for one in sentences[-1:] if one.whole)] or list(sentences)
    kept: list[CitedSentence] = []
    words = 0
    for sentence in whole[: rules.max_sentences]:
        words += word_count([sentence], count_citations=count_citations)
        if words > rules.max_words:
            break
        kept.append(sentence)
    if kept or not whole:
        return kept
    first = whole[0]
    room = max(1, rules.max_words - (len(first.cited) if count_citations else 0))
    cut = " ".join(first.text.split()[:room])
    return [CitedSentence(_with_end(cut), first.cited)]


def word_count(sentences: Sequence[CitedSentence], *, count_citations: bool) -> int:
    """Words separated by white space; a citation of two ids is written as two."""
    return sum(
        len(sentence.text.split()) + (len(sentence.cited) if count_citations else 0) for sentence in sentences
    )


def write_citations(sentences: Sequence[CitedSentence]) -> str:
    """A sentence a line, its citations behind it: `He had surgery. |1, 3|`."""
    return "\n".join(f"{one.text} |{', '.join(one.cited)}|" if one.cited else one.text for one in sentences)


def _take_out(text: str, known: Collection[str]) -> tuple[str, list[_Mark]]:
    """The text without citations, and the citations; one without ids is malformed."""
    parts: list[str] = []
    marks: list[_Mark] = []
    position = 0
    while (pipe := text.find("|", position)) >= 0:
        parts.append(text[position:pipe].rstrip(" \t"))
        close = text.find("|", pipe + 1)
        ids = _ids(text[pipe + 1 : close], known) if close >= 0 else None
        if ids is not None:
            # After the last word: a citation on a separate line belongs to the line before.
            marks.append(_Mark(len("".join(parts).rstrip(_BETWEEN_LINES)), ids))
            position = close + 1
            if _is_ended("".join(parts).rstrip()):
                # `It stopped. |1|.` has one full stop too many.
                position += text.startswith(".", position)
                if not text[position:].lstrip()[:1].islower():
                    parts.append("\n")
        elif close < 0 and _CUT_OFF.match(text, pipe):
            marks.append(_Mark(len("".join(parts).rstrip(_BETWEEN_LINES)), ()))
            position = len(text)
        else:
            # A pipe of the text itself, as in `Na 140 | K 4.0`; it would be read as a citation later.
            parts.append(" /" if parts[-1] else "/")
            position = pipe + 1
    parts.append(text[position:])
    return "".join(parts), marks


def _ids(content: str, known: Collection[str]) -> tuple[str, ...] | None:
    """Ids between two pipes; empty for a citation that names none, None where the pipes are text."""
    if len(content) > _LONGEST:
        return None
    if content.strip() in known:
        return (content.strip(),)
    named = [part for part in _SEPARATORS.split(content) if part]
    by_comma = [part.strip() for part in content.split(",") if part.strip()]
    for parts in (by_comma, named):
        if any(part in known for part in parts):
            return tuple(parts)
    if _NUMBERS.fullmatch(content):
        return tuple(named)
    padded = content[:1].isspace() and content[-1:].isspace()
    return None if padded and content.strip() else ()


def _sentences(text: str) -> list[tuple[int, int, str]]:
    """Start, end and text of each sentence; the start of the first is before the text."""
    found: list[tuple[int, int, str]] = []
    cursor = 0
    for line in text.split("\n"):
        begin = cursor
        cursor += len(line) + 1
        at = begin
        for sentence in _pieces(line):
            start = text.find(sentence, at)
            at = start + len(sentence)
            found.append((found[-1][1] if found else -1, at, sentence))
    return found


def _pieces(text: str) -> list[str]:
    """Sentences that stay whole when they are read by themselves, without bullets."""
    parts = split_sentences(_BULLET.sub("", text))
    return parts if len(parts) < 2 else [piece for part in parts for piece in _pieces(part)]


def _without_brackets(text: str) -> tuple[str, int]:
    """Without `[3]` and `(4)`, which no scorer of 2025 reads, and how many there were."""
    removed = 0
    found = 1
    while found:
        text, found = _BRACKETS.subn("", text)
        removed += found
    return text, removed


def _with_end(text: str) -> str:
    return text if _is_ended(text) else f"{text.rstrip(',;: ')}."


def _is_ended(text: str) -> bool:
    return text.rstrip(_CLOSERS).endswith(_ENDS)
