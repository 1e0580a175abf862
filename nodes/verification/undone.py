"""Things that a record has only as not done, and statements that have them done."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[a-z][a-z0-9-]+")
_STOP = frozenset(
    ("an", "the", "of", "in", "on", "at", "by", "for", "to", "and", "his", "her", "their", "this")
)
_VERB = re.compile(r"\b(?:was|were|is|are|has|have|had|could|would)\b", re.IGNORECASE)
_UNDONE = re.compile(
    r"\b(?:not|never)\s+(?:be\s+|been\s+)?(?:done|performed|obtained|taken|given|started|prescribed"
    r"|administered|placed|measured|checked|sent|repeated)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|never|cannot|declined|refused|held|stopped|avoid(?:ed)?|instead)\b|n't\b|^\W*no\b"
    r"|\b(?:had|received|with) no\b",
    re.IGNORECASE,
)
"""Of the thing itself; "showed no effusion" and "without effusion" deny something else."""
_MOST = 5
"""Words that name a thing; a longer clause says more than that."""


def undone_places(statement: str, texts: Sequence[str]) -> list[int]:
    """Places of the sentences that say of a thing in the statement that it was not done.

    "A CT of the chest was considered but was not done" denies every statement without a negation that has
    both "CT" and "chest", unless another sentence of the record has them too.
    """
    if _DENIED.search(statement):
        return []
    words = _words(statement)
    return [
        place
        for place, text in enumerate(texts)
        if (thing := undone_thing(text))
        and thing <= words
        and not any(thing <= _words(other) for other in (*texts[:place], *texts[place + 1 :]))
    ]


def undone_thing(text: str) -> frozenset[str]:
    """The words before the first verb of a sentence on something that was not done; none of any other."""
    verb = _VERB.search(text)
    if verb is None or not _UNDONE.search(text, verb.end()):
        return frozenset()
    thing = _words(text[: verb.start()])
    return thing if len(thing) <= _MOST else frozenset()


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold())) - _STOP
