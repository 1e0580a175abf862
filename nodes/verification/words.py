"""Words of clinical English that checks of a statement compare: stems, numbers with units, plain spelling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import Stemmer

STEMMER = Stemmer.Stemmer("english")


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


STOP = word_set(
    "a an the and or of to in on at by for with from as is are was were be been being has have had do does"
    " did this that these those it its he she his her him you your i my we our they them their who which"
    " there patient patients also still then than so but because although while if when until after before"
    " during since over under about more most less any all some other further such each very may might can"
    " could should would will must shall into out up down per both either not"
)
"""Words that sentences of any kind share."""

UNTELLING = word_set(
    "discharg admiss admit hospit ward day week month year hour daili twice onc level valu measur count read"
    " result test found show shown note given receiv taken start home time last first today histori stay"
)
"""Stems that sentences on different things share."""

_DASHES = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        **dict.fromkeys("\u00b5\u03bc", "u"),
        "\u00d7": "x",
        "\u2019": "'",
    }
)


def plain(text: str) -> str:
    """The text in one line, with ASCII dashes and apostrophes and `u` for micro."""
    return " ".join(text.translate(_DASHES).split())


def stems(text: str) -> list[str]:
    """Stems of the words of three letters or more, without those that every sentence has."""
    words = (word.lower() for word in re.findall(r"[a-z]{3,}", text, re.IGNORECASE))
    return list(STEMMER.stemWords([word for word in words if word not in STOP]))


def telling(text: str) -> frozenset[str]:
    """Stems that say what a detail is about."""
    return frozenset(stems(text)) - UNTELLING


_UP_TO_EIGHTEEN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen"
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBERS: Mapping[str, float] = {
    **{word: place for place, word in enumerate(_UP_TO_EIGHTEEN.split())},
    **{word: 10 * place for place, word in enumerate(_TENS, start=2)},
}
_SPELLINGS: tuple[tuple[str, str, float], ...] = (
    ("mcg ug microgram micrograms", "g", 1e-6),
    ("mg milligram milligrams", "g", 1e-3),
    ("g gram grams", "g", 1.0),
    ("kg kilogram kilograms", "g", 1e3),
    ("lb lbs pound pounds", "g", 453.6),
    ("ml cc millilitre millilitres milliliter milliliters", "l", 1e-3),
    ("l litre litres liter liters", "l", 1.0),
    ("mm millimetre millimetres millimeter millimeters", "m", 1e-3),
    ("cm centimetre centimetres centimeter centimeters", "m", 1e-2),
    ("m metre metres meter meters", "m", 1.0),
    ("min mins minute minutes", "h", 1 / 60),
    ("h hr hrs hour hours", "h", 1.0),
    ("day days night nights", "h", 24.0),
    ("wk wks week weeks", "h", 168.0),
    ("month months", "month", 1.0),
    ("yr yrs year years", "month", 12.0),
    ("% percent", "%", 1.0),
    ("bpm /min", "bpm", 1.0),
    ("tab tabs tablet tablets pill pills", "tablet", 1.0),
    ("u iu unit units", "unit", 1.0),
    ("\u00b0c", "\u00b0c", 1.0),
    ("\u00b0f", "\u00b0f", 1.0),
)
_OWN = (
    "mmhg mg/dl g/dl g/l mg/l ng/ml pg/ml ug/ml ug/l mmol/l umol/l mol/l meq/l meq u/l iu/l miu/l k/ul kg/m2"
    " mg/kg mcg/kg mcg/h mg/h mg/day ml/h ml/min l/min cmh2o kpa fr gy mv ms hz"
)
"""Units that nothing is converted into."""

_UNITS: Mapping[str, tuple[str, float]] = {
    **{unit: (unit, 1.0) for unit in _OWN.split()},
    **{word: (base, factor) for words, base, factor in _SPELLINGS for word in words.split()},
}
_UNIT = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_NUMBER = (
    rf"\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}"
)
_QUANTITY = re.compile(
    rf"(?<![\w.])(?P<number>{_NUMBER})(?!\w*\d)(?![a-z]{{4}})(?:[ -]?(?P<unit>{_UNIT})(?![\w/\u00b0]))?",
    re.IGNORECASE,
)
_RANGE = re.compile(
    rf"\s*(?:-|to|or|and|/)\s*(?:{_NUMBER})[ -]?(?P<unit>{_UNIT})(?![\w/\u00b0])", re.IGNORECASE
)
_ORDINAL = re.compile(r"\b(?P<unit>day|week|month|year)s? $", re.IGNORECASE)
_HEDGE = re.compile(
    r"(?:\b(?:about|around|approximately|roughly|nearly|almost|over|more than|at least|up to|under"
    r"|less than|fewer than)|[~<>])\s*$",
    re.IGNORECASE,
)
_HEDGED_SHARE, _SHARE = 0.15, 0.005
_MADE_COUNT = 3


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a text.

    Attributes:
        text: As it is written, with its unit.
        written: The number as it is written.
        value: In the base of its unit: grams, litres, metres, hours, months.
        unit: That base, or a unit that is its own; empty without one.
        hedged: Whether "about" or the like comes before it.
        made: Whether it is a small count without a unit, which a writer may make from a list: "both drugs".
    """

    text: str
    written: float
    value: float
    unit: str
    hedged: bool
    made: bool

    def agrees(self, other: Quantity) -> bool:
        """Whether two numbers can be the same, whatever their units say."""
        if self.written == other.written:
            return True
        comparable = self.unit == other.unit or not (self.unit and other.unit)
        return comparable and self._is_near(other)

    def same_unit(self, other: Quantity) -> bool:
        """Whether the units agree too; a number without one agrees with all."""
        if not (self.unit and other.unit):
            return True
        return self.unit == other.unit and self._is_near(other)

    def _is_near(self, other: Quantity) -> bool:
        share = _HEDGED_SHARE if self.hedged else _SHARE
        return abs(self.value - other.value) <= share * max(self.value, other.value)


@lru_cache(maxsize=1024)
def quantities(text: str) -> tuple[Quantity, ...]:
    """The numbers of a plain text, in their order; the first of a range has the unit of the second."""
    found = []
    for match in _QUANTITY.finditer(text):
        number, unit = match["number"].lower(), match["unit"]
        neighbour = _RANGE.match(text, match.end()) or _ORDINAL.search(text, 0, match.start())
        if unit is None and neighbour is not None:
            unit = neighbour["unit"]
        base, factor = _UNITS[unit.lower()] if unit is not None else ("", 1.0)
        written = _NUMBERS[number] if number in _NUMBERS else float(number.replace(",", ""))
        found.append(
            Quantity(
                match[0].strip(),
                written,
                written * factor,
                base,
                _HEDGE.search(text, 0, match.start()) is not None,
                not unit and written <= _MADE_COUNT and "." not in number,
            )
        )
    return tuple(found)
