"""What a text denies: which words of each clause a negation or a prohibition governs.

After NegEx (Chapman et al. 2001): a cue governs the words up to the end of its clause. Words of permission
are cues like any other, as "the drug was stopped" and "do not restart the drug" agree on the drug.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from itertools import zip_longest

from nodes.verification.words import STEMMER, STOP, plain, telling, word_set

_BEFORE = word_set(
    "no not never without cannot don't doesn't didn't isn't wasn't weren't won't shouldn't denies denied"
    " denying absent avoid avoiding neither nor lacks lacked excludes excluded against refuse refused"
    " declined forbids stop stopped hold held withheld withhold discontinue discontinued unlikely ineligible"
)
"""Cues that govern what follows."""

_AFTER = word_set(
    "stopped held withheld discontinued excluded negative absent deferred cancelled contraindicated"
    " prohibited forbidden avoided unlikely denied declined failed"
)
"""Cues that govern what comes before, in a passive clause."""

_PASSIVE = word_set("is are was were be been being remain remains remained")
_VERBS = word_set(
    "is are was were be has had have can could may might should must will would did does remains"
)
_NEW_CLAUSE = _VERBS | word_set("he she it they the")
_TURNS = word_set(". ; : ( ) but although however though whereas while because so until unless if after")
_REWRITES = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\bno (?:sooner|later|more|less|fewer) than\b|\bnot only\b|\beven if not\b|\bno change\b", " "),
        (r"\bno longer\b", "not"),
        (r"\bnon-", "no "),
        (r"\bnegative for\b", "no"),
        (r"\bfail(?:s|ed|ing)? to\b|\bfree of\b", "not"),
        (r"\bruled out\b", "excluded"),
        (
            rf"\b(is|are|was|were) \w+ed\b[^.;:,()]{{0,20}} (?:but|and) (?:(?:was|were) )?(?=(?:not"
            rf"|{'|'.join(sorted(_AFTER))})\b)",
            r"\1 ",
        ),
    )
)
_YES_OR_NO = re.compile(
    r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|may|might|must|should|will|would)(?:n't)?\b",
    re.IGNORECASE,
)
_PURPOSE = re.compile(r"\s(?:for|because|due to)\s.*", re.IGNORECASE | re.DOTALL)
_GENERIC = frozenset(
    map(
        STEMMER.stemWord,
        word_set(
            "use used give given get got see seen take took need done perform performed made make prescribe"
            " safe continue resume restart receive treat undergo underwent avoid allow put send sent placed"
            " administer carry carried undertake undertaken"
        ),
    )
)
"""Stems of what is done to anything."""

_WORD = re.compile(r"[a-z][a-z'-]*[a-z]|[.;,:()]", re.IGNORECASE)
_EITHER = frozenset({True, False})
_FEW = 2
"""Words between two commas that may be an item of a list that continues."""


@lru_cache(maxsize=1024)
def clauses(text: str, *, lenient: bool = False) -> tuple[Mapping[str, frozenset[bool]], ...]:
    """The clauses of a plain text: stems of their words, each with {True} if it is denied, else {False}.

    "The drug should not be given" denies the drug as well as the giving; a lenient reader takes the drug both
    ways, {True, False}.
    """
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    words = [match[0].lower() for match in _WORD.finditer(text)]
    parts: list[list[str]] = [[]]
    for word, following in zip_longest(words, words[1:]):
        if word in _TURNS or (word == "and" and following in _NEW_CLAUSE):
            parts.append([])
        else:
            parts[-1].append(word)
    found = ({STEMMER.stemWord(word): ways for word, ways in _governed(part, lenient)} for part in parts)
    return tuple(clause for clause in found if clause)


@lru_cache(maxsize=1024)
def denials(text: str) -> Mapping[str, frozenset[bool]]:
    """Stems of a plain text with every way in which its clauses have them, read leniently."""
    found: dict[str, frozenset[bool]] = {}
    for clause in clauses(text, lenient=True):
        for stem, ways in clause.items():
            found[stem] = found.get(stem, frozenset()) | ways
    return found


def denying_sentences(question: str, texts: Sequence[str]) -> list[int]:
    """Places of the texts that answer a yes/no question, as they deny all that it asks about.

    "Can he take ibuprofen again?" is answered by "Ibuprofen was avoided"; its purpose ("for the pain") may be
    missing.
    """
    if _YES_OR_NO.match(question) is None:
        return []
    parts = (_PURPOSE.sub("", question), question)
    asked = next((named for part in parts if (named := _named(plain(part)))), frozenset())
    return [place for place, text in enumerate(texts) if _denies(plain(text), asked, asked)]


def repeats_denial(statement: str, texts: Sequence[str]) -> bool:
    """Whether a statement denies a thing that one of the texts denies, and names nothing that it lacks."""
    named = _named(plain(statement))
    ways = _by_part(clauses(plain(statement)))
    denied = {stem for stem in named if False not in ways.get(stem, {False})}
    return any(_denies(plain(text), named, denied) for text in texts)


def _named(text: str) -> frozenset[str]:
    return telling(text) - _GENERIC


def _by_part(parts: Sequence[Mapping[str, frozenset[bool]]]) -> Mapping[str, frozenset[bool]]:
    """Every way in which clauses have a word; one with hyphens counts by its parts too."""
    found: dict[str, frozenset[bool]] = {}
    for clause in parts:
        for stem, ways in clause.items():
            for part in {stem, *stem.split("-")}:
                found[part] = found.get(part, frozenset()) | ways
    return found


def _denies(text: str, named: Set[str], denied: Set[str]) -> bool:
    """Whether a text names all of some stems and denies one of others."""
    there = _by_part([denials(text)])
    return bool(denied) and named <= there.keys() and any(True in there[stem] for stem in denied)


def _governed(clause: Sequence[str], lenient: bool) -> list[tuple[str, frozenset[bool]]]:
    """A comma ends the reach of a cue unless a list continues."""
    found: list[tuple[str, frozenset[bool]]] = []
    denied = False
    part = 0
    for place, word in enumerate(clause):
        if word == ",":
            rest = clause[place + 1 :]
            until = rest.index(",") if "," in rest else len(rest)
            denied = denied and (until <= _FEW or "or" in rest[: until + 1] or "nor" in rest[: until + 1])
            part = place + 1
        elif word in _AFTER and clause[place + 1 : place + 2] != ["to"] and _looks_back(clause, place, part):
            found = [(other, _reversed(ways)) for other, ways in found]
        elif word in _BEFORE:
            denied = not denied
            if place > part and (lenient or _denies_before(clause[place - 1 : place + 2])):
                found = [(other, _EITHER if lenient else _reversed(ways)) for other, ways in found]
        elif word not in STOP:
            found.append((word, frozenset({denied})))
    return found


def _reversed(ways: frozenset[bool]) -> frozenset[bool]:
    return frozenset(not way for way in ways)


def _denies_before(words: Sequence[str]) -> bool:
    """Whether the cue in the middle or at the end denies a verb: "was not given", "not resumed", "cannot"."""
    before, cue, *after = words
    return cue == "cannot" or (
        cue in ("not", "never") and (before in _VERBS or any(word.endswith("ed") for word in after))
    )


def _looks_back(clause: Sequence[str], place: int, part: int) -> bool:
    return clause[place] == "failed" or any(word in _PASSIVE for word in clause[max(part, place - 4) : place])
