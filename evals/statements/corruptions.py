"""Wrong versions of a right sentence, made by rules: one detail is changed and the rest kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal, get_args

Kind = Literal["number", "unit", "negation", "drug", "side", "time"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SPAN = r"(?:minute|hour|day|night|week|month|year)"
_NUMBER = rf"(?<![\w.,/^-])(?:\d+(?:\.\d+)?|{'|'.join(_WORDS[1:])})(?![\w,.]*\d|\w)"
_TIME = re.compile(
    rf"(?P<before>\b{_SPAN} )(?P<number>\d+)\b|(?P<first>{_NUMBER})(?P<after>[ -](?P<span>{_SPAN})s?\b)",
    re.IGNORECASE,
)
_MEASURED = re.compile(_NUMBER, re.IGNORECASE)
_NO_MEASURE = re.compile(rf"\s*(?:to|or|and|-|\u2013)?\s*(?:{_NUMBER})?[ -]?{_SPAN}|-[a-z]", re.IGNORECASE)
_UNIT_SWAPS = {
    "mg": "g",
    "mcg": "mg",
    "g": "mg",
    "kg": "g",
    "mL": "L",
    "L": "mL",
    "mm": "cm",
    "cm": "mm",
    "kg/m2": "kg",
    "%": " mg",
    "mmHg": "cmH2O",
    "mg/dL": "g/L",
    "g/dL": "mg/dL",
    "mmol/L": "mg/dL",
    "mg/L": "g/L",
    "ng/mL": "mg/mL",
    "U/L": "mg/L",
    "L/min": "mL/min",
    "lb": "kg",
    "°C": "°F",
}
_UNITS = "|".join(map(re.escape, sorted(_UNIT_SWAPS, key=len, reverse=True)))
_UNIT = re.compile(rf"(?<=\d)(\s?)({_UNITS})(?![\w/%])")
_ORDER = {
    "before": "after",
    "after": "before",
    "earlier": "later",
    "later": "earlier",
    "daily": "weekly",
    "weekly": "daily",
    "hourly": "daily",
    "monthly": "weekly",
    "annually": "monthly",
    "nightly": "weekly",
}
_DRUG_CLASSES: tuple[tuple[str, ...], ...] = (
    ("aspirin", "clopidogrel", "ticagrelor", "prasugrel"),
    ("apixaban", "rivaroxaban", "warfarin", "enoxaparin", "heparin", "dabigatran"),
    ("prednisone", "methylprednisolone", "dexamethasone", "hydrocortisone", "prednisolone", "budesonide"),
    ("methotrexate", "azathioprine", "mycophenolate", "tacrolimus", "cyclosporine", "rituximab"),
    ("vancomycin", "ceftriaxone", "meropenem", "doxycycline", "amoxicillin", "azithromycin", "cefazolin"),
    ("ciprofloxacin", "levofloxacin", "metronidazole", "trimethoprim-sulfamethoxazole", "nitrofurantoin"),
    ("metformin", "glipizide", "empagliflozin", "semaglutide", "insulin"),
    ("lisinopril", "losartan", "amlodipine", "metoprolol", "labetalol", "nicardipine", "carvedilol"),
    ("furosemide", "spironolactone", "torsemide", "hydrochlorothiazide"),
    ("dobutamine", "norepinephrine", "milrinone", "vasopressin", "epinephrine"),
    ("ibuprofen", "naproxen", "acetaminophen", "ketorolac", "celecoxib"),
    ("oxycodone", "morphine", "hydromorphone", "tramadol", "fentanyl", "methadone", "buprenorphine"),
    ("levetiracetam", "valproate", "lamotrigine", "phenytoin", "phenobarbital", "carbamazepine"),
    ("lorazepam", "diazepam", "midazolam", "clonazepam"),
    ("sertraline", "fluoxetine", "escitalopram", "bupropion", "venlafaxine", "amitriptyline"),
    ("omeprazole", "famotidine", "pantoprazole"),
    ("oxybutynin", "diphenhydramine", "meclizine", "hydroxyzine"),
    ("fenofibrate", "atorvastatin", "rosuvastatin", "icosapent ethyl"),
    ("lidocaine", "bupivacaine"),
    ("alteplase", "tenecteplase"),
    ("thiamine", "folic acid", "leucovorin"),
    ("lithium", "olanzapine", "haloperidol", "quetiapine", "risperidone"),
    ("levothyroxine", "methimazole", "propylthiouracil"),
    ("letrozole", "tamoxifen", "anastrozole"),
)
_CLASS_OF = {name: group for group in _DRUG_CLASSES for name in group}
_DRUG = re.compile(rf"\b({'|'.join(sorted(_CLASS_OF, key=len, reverse=True))})\b", re.IGNORECASE)
# "Left" is also what a patient does to a ward, so none of these may follow.
_SIDE = re.compile(
    r"\b(left|right)(?=(?:-sided)?\b)(?! (?:the|on|in|at|with|without|for|to|her|his|once|after|away)\b)",
    re.IGNORECASE,
)
_SIDES = {"left": "right", "right": "left"}

_REMOVALS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\bcannot\b", "can"),
        (r"\b(do|does|did) not need\b", "needed"),
        (r"\b(should|must|may|can|could|is|are|was|were|has|have|had|will|would) (?:not|never)\b", r"\1"),
        (r"\b(?:not|never) ", ""),
        (r"\bwithout\b", "with"),
        (r"\bno longer\b", "still"),
        (r"^no (?=\w+ (?:was|were|is|are|has|have)\b)", "A "),
        (r"\bshowed no\b", "showed"),
        (r"(?<=[a-z] )no (?!sooner|later|more|less|fewer|longer)(?=[a-z])", "some "),
        (r"\bnegative\b", "positive"),
    )
)
_INSERTIONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\b(should|must|may|can|could|is|are|was|were|will|would)\b", r"\1 not"),
        (r"\b(ha[sd])(?= (?:been|\w+ed)\b)", r"\1 not"),
        (r"\bhad\b", "did not have"),
        (r"\bha(?:s|ve)\b", "does not have"),
        (r"\b(showed|developed|received|required|needed|caused|confirmed|supported|started)\b", r"never \1"),
        (r"\b(show|shows|indicate|indicates|suggest|suggests|support|supports|cause|causes)\b", r"never \1"),
        (r"\b(increases?|reduces?|decreases?|improves?|induces?|inhibits?|affects?|leads?)\b", r"never \1"),
        (r"\b(\w{3,}ed)\b(?= (?:the|a|an|to|into|from|by|in|on|for|over|within|her|his|\d))", r"never \1"),
        (r"\bpositive\b", "negative"),
        (r"\bwith\b", "without"),
    )
)


def corruptions(sentence: str) -> dict[Kind, str]:
    """Wrong versions of a sentence by what was changed, of those kinds that it has something for.

    What is changed, and to what, depends on the sentence alone.
    """
    made = {kind: change(sentence) for kind, change in _CHANGES.items()}
    return {kind: text for kind, text in made.items() if text is not None and text != sentence}


def negated(sentence: str) -> str | None:
    """The sentence with a negation taken out, or else put in; None where neither rule has a place for it."""
    for rules in (_REMOVALS, _INSERTIONS):
        for pattern, replacement in rules:
            changed, count = pattern.subn(replacement, sentence, count=1)
            if count:
                return changed
    return None


def _draw(sentence: str, purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{purpose} {sentence}".encode()).digest()[:4], "big")


def _one_of(found: Iterable[re.Match[str]], sentence: str, purpose: str) -> re.Match[str] | None:
    matches = list(found)
    return matches[_draw(sentence, purpose) % len(matches)] if matches else None


def _spliced(sentence: str, start: int, end: int, text: str) -> str:
    return f"{sentence[:start]}{text}{sentence[end:]}"


def _other_number(text: str, drawn: int) -> str:
    """A number that is at least a fifth larger or smaller, written the same way."""
    if text.lower() in _WORDS:
        place = _WORDS.index(text.lower())
        return _WORDS[(place + 2 + drawn % 3) % len(_WORDS)] if place < 8 else _WORDS[place - 3 - drawn % 3]
    digits = len(text.partition(".")[2])
    value = float(text)
    factor = (0.4, 0.6, 1.5, 1.8)[drawn % 4]
    changed = f"{value * factor:.{digits}f}"
    return changed if changed != text else f"{value + 2:.{digits}f}"


def _number(sentence: str) -> str | None:
    times = [match.span() for match in _TIME.finditer(sentence)]
    found = [
        match
        for match in _MEASURED.finditer(sentence)
        if not any(start <= match.start() < end for start, end in times)
        and _NO_MEASURE.match(sentence, match.end()) is None
    ]
    match = _one_of(found, sentence, "number")
    if match is None:
        return None
    return _spliced(sentence, *match.span(), _other_number(match[0], _draw(sentence, "value")))


def _unit(sentence: str) -> str | None:
    match = _one_of(_UNIT.finditer(sentence), sentence, "unit")
    if match is None:
        return None
    return _spliced(sentence, *match.span(2), _UNIT_SWAPS[match[2]])


def _time(sentence: str) -> str | None:
    match = _one_of(_TIME.finditer(sentence), sentence, "time")
    if match is not None:
        group = "number" if match["number"] else "first"
        return _spliced(sentence, *match.span(group), _other_number(match[group], _draw(sentence, "value")))
    return _swapped(sentence, re.compile(rf"\b({'|'.join(_ORDER)})\b", re.IGNORECASE), _ORDER)


def _drug(sentence: str) -> str | None:
    match = _one_of(_DRUG.finditer(sentence), sentence, "drug")
    if match is None:
        return None
    present = {name.lower() for name in _DRUG.findall(sentence)}
    others = [name for name in _CLASS_OF[match[0].lower()] if name not in present]
    other = others[_draw(sentence, "name") % len(others)]
    return _spliced(sentence, *match.span(), _in_case_of(match[0], other))


def _swapped(sentence: str, pattern: re.Pattern[str], swaps: Mapping[str, str]) -> str | None:
    match = _one_of(pattern.finditer(sentence), sentence, pattern.pattern)
    if match is None:
        return None
    return _spliced(sentence, *match.span(1), _in_case_of(match[1], swaps[match[1].lower()]))


def _in_case_of(old: str, new: str) -> str:
    return new.capitalize() if old[0].isupper() else new


_CHANGES: Mapping[Kind, Callable[[str], str | None]] = {
    "number": _number,
    "unit": _unit,
    "negation": negated,
    "drug": _drug,
    "side": partial(_swapped, pattern=_SIDE, swaps=_SIDES),
    "time": _time,
}
