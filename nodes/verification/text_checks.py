"""What words alone say of a statement: numbers, and negations, that its record does not have so.

Pure and cheap, and blind to meaning: the model's question is what tells whether a statement follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypedDict

from cases.records import Sentence

FaultKind = Literal["number", "date", "side", "drug", "dose", "negation", "permission"]


class Fault(TypedDict):
    """What a statement says otherwise than its record, or without it.

    Attributes:
        kind: Of the words that are wrong.
        text: In words that can be quoted to the model that wrote the statement.
        contradicts: Whether the record says otherwise; it merely does not say so if false.
        sentence_ids: Of the record, that decide; empty if nothing is like it.
    """

    kind: FaultKind
    text: str
    contradicts: bool
    sentence_ids: list[str]


_WORD = re.compile(r"[a-z][a-z-]{2,}")
_NUMBER = re.compile(r"(?<![\w.,/-])\d+(?:[.,]\d+)*(?:/\d+(?:\.\d+)?)?(?![\w/]*\d)")
_NEGATION = re.compile(
    r"\b(?:no|not|never|without|denie[sd]|den(?:y|ying)|avoid(?:ed)?|held|hold|stop(?:ped)?|discontinued"
    r"|contraindicated|cannot|neither|nor|withheld|declined|refused|n't)\b",
    re.IGNORECASE,
)
_STOP = re.compile(
    r"the|and|was|were|has|had|have|with|for|from|that|this|then|than|who|which|his|her|their|its|they|she"
    r"|patient|given|because|after|before|during|while|are|been|being|did|does|into|onto|over|under|also|not"
    r"|but|our|all|any|can|may|him|you|your|will|would|should|could"
)
_BEFORE, _AFTER = 4, 2
"""Words that tell what a number is of."""
_REACH = 6
"""Words after a negation that it can be on."""


def check_text(statement: str, cited: Sequence[Sentence], note: Sequence[Sentence]) -> list[Fault]:
    """Everything in a statement that its record does not have so.

    Args:
        statement: A sentence of an answer.
        cited: What the answer was built on; looked at first.
        note: The whole record.
    """
    record = [*cited, *(one for one in note if one not in cited)]
    return [*_numbers(statement, record), *_negations(statement, record)]


def nearest(text: str, sentences: Sequence[Sentence], most: int) -> list[str]:
    """Ids of the sentences that share most words with a text, in the order of the record."""
    words = _words(text)
    shares = {one.id: len(words & _words(one.text)) for one in sentences}
    best = sorted((id_ for id_ in shares if shares[id_]), key=lambda id_: -shares[id_])[:most]
    return [id_ for id_ in shares if id_ in best]


def _words(text: str) -> frozenset[str]:
    found = _WORD.findall(text.casefold())
    return frozenset(word.removesuffix("s") for word in found if not _STOP.fullmatch(word))


def _number_set(text: str) -> set[str]:
    return {found.rstrip(".,") for found in _NUMBER.findall(text)}


def _numbers(statement: str, record: Iterable[Sentence]) -> list[Fault]:
    """Numbers that no sentence has with most of the words that are near them in the statement."""
    sentences, found = list(record), []
    for match in _NUMBER.finditer(statement):
        number = match[0].rstrip(".,")
        near = [*statement[: match.start()].split()[-_BEFORE:], *statement[match.end() :].split()[:_AFTER]]
        words = _words(" ".join(near))
        having = [one for one in sentences if number in _number_set(one.text)]
        if not any(2 * len(words & _words(one.text)) > len(words) for one in having):
            elsewhere = f'only in another context: "{having[0].text}"' if having else "nowhere"
            text = f"the number {number} is stated {elsewhere}"
            found.append(
                Fault(kind="number", text=text, contradicts=False, sentence_ids=[one.id for one in having])
            )
    return found


def _negations(statement: str, record: Iterable[Sentence]) -> list[Fault]:
    """An affirmative statement on words that the record only has behind a negation."""
    if _NEGATION.search(statement):
        return []
    words = _words(statement)
    denied: dict[str, Sentence] = {}
    affirmed: set[str] = set()
    for one in record:
        scope = frozenset[str]()
        for cue in _NEGATION.finditer(one.text):
            scope |= _words(" ".join(one.text[cue.end() :].split()[:_REACH]))
        affirmed |= words & (_words(one.text) - scope)
        for word in sorted(words & scope):
            denied.setdefault(word, one)
    found: dict[str, Fault] = {}
    for word, one in denied.items():
        if word not in affirmed:
            found.setdefault(
                one.id,
                Fault(
                    kind="negation",
                    text=f'the record negates {word}: "{one.text}"',
                    contradicts=True,
                    sentence_ids=[one.id],
                ),
            )
    return list(found.values())
