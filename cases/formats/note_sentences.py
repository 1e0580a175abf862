"""The sentences of a clinical note as it was typed: wrapped lines joined, lists and tables kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

_ITEM = re.compile(
    r"\s*(?:[-*+#\u2022\u2023\u25aa\u25cf\u25e6\u2013\u2014]|\[[ xX]?\]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+(?=\S)"
)
"""Sign of a list item."""
_LABEL = re.compile(r"\s*[A-Z][^\s.:;,]*(?: [^\s.:;,]+){0,4}:(?:\s|$)")
"""`Speech: slow`, `Aortic valve area: 0.7 cm2`."""
_STAMP = re.compile(r"\s*(?:___|\[\*\*[^*]*\*\*\]|\d[\d/-]+)\s+\d{1,2}:\d\d")
"""Date and time of a result."""

_ENDS = (".", "!", "?", ":", ";")
_WIDEST = 200
"""Characters; longer lines were not wrapped by the writer."""
_NARROWEST = 30
"""Characters; shorter lines are findings, not lines of a wrapped text."""
_MOSTLY = 0.6
"""Share of full lines from which a note counts as wrapped at a width."""
_NEARLY = 0.8
"""Share of the width from which a line of a wrapped note continues: not all wrap as late as they can."""

_UNFINISHED = re.compile(
    r"(?:[,/&(+]|[a-z]-|(?:^|[\s(])(?:"
    r"an?|the|and|or|nor|but|with|without|w/|w/o|s/p|of|to|at|in|on|by|for|from|into|onto|over|under|after"
    r"|before|during|until|since|through|between|within|via|per|than|as|if|that|which|who|whose|when|where"
    r"|while|because|is|are|was|were|be|been|being|has|have|had|will|would|should|could|can|did|does"
    r"|his|her|their|its|our|this|these|not|very|about|approximately"
    r"|(?i:(?:drs?|mrs?|ms|prof|st|vs|approx|e\.g|i\.e)\.)))$"
)
"""Last word or sign of a line that continues in the next one."""
_UNIT = (
    r"(?i:mcg|mg|kg|g|ml|dl|l|cc|units?|iu|meq|mmol|mm|cm|hrs?|hours?|h|min|days?|d|wks?|weeks?|mos?|months?"
    r"|yrs?|years?|y|puffs?|tabs?|tablets?|oz|bpm|%)"
)
_CONTINUES = re.compile(rf"\(|\d[\d.,/-]*\s?{_UNIT}(?![A-Za-z])")
"""Beginning of a line that continues the one above: a bracket, or a number with a unit."""
_PRINTED = re.compile(r"-\d[\d.]*\*?\n\s*[A-Z]\w*-\d")
"""Between two lines of printed results: `Hct-30.1*`, `MCV-97`."""

_ABBREVIATIONS = frozenset(
    [
        *("approx.", "avg.", "max.", "min.", "est.", "prev.", "freq.", "incl.", "excl.", "cont.", "hosp."),
        *("temp.", "resp.", "wt.", "ht.", "abd.", "neuro.", "ext.", "plt.", "alk.", "bili.", "creat."),
        *("rx.", "tx.", "dx.", "hx.", "sx.", "inj.", "tab.", "tabs.", "cap.", "caps.", "susp.", "soln."),
        *("pos.", "neg.", "diff.", "spp.", "oz.", "wk.", "wks.", "mo.", "mos.", "hr.", "hrs.", "yr.", "yrs."),
        *("mon.", "tue.", "tues.", "wed.", "thu.", "thurs.", "fri.", "sat.", "sun.", "fr.", "d.", "pt.'s"),
    ]
)
"""Words whose full stop ends no sentence unless a capital follows, beyond those that sentencex knows."""
_DOSED = re.compile(
    rf"(?:(?:\d\s?|/){_UNIT}|\b(?i:[bqt]\.i\.d|q\.d|q\.h\.s|p\.r\.n))\.\s+"
    r"(?=[A-Z])(?!(?:IV|IM|PO|SC|SQ|SL|PR|BID|TID|QID|QHS|QD|PRN|NS|LR)\b)"
)
"""A unit or a frequency before a capital ends a sentence; sentencex takes `6 d. D/c` for initials."""
_INITIAL = re.compile(r"nitial[^*]*\*\*\]\.$")
"""The masked initial of a name: `[**Initial (NamePattern1) **].`"""

_GAP = re.compile(r"(?<=[^\s.!?:;,])(?: {2,})(?=\S)")
"""Between two cells of a table; two blanks after a full stop are a typist's habit."""
_COLUMN = re.compile(
    r"\D+|(?i:day|pod|hd|week|visit) ?#?\d+|(?:\[\*\*)?[\d/.:-]+(?:\*\*\])?(?: ?[ap]m)?", re.IGNORECASE
)
"""Name of a column: a word, a day or a date."""


class _Cell(NamedTuple):
    """A cell of a table and its place in the line."""

    text: str
    start: int
    end: int


def note_sentences(note: str) -> list[str]:
    """Sentences of a note, in their order, each on one line.

    Wrapped lines are joined. Elsewhere a line ends a sentence: notes list findings one a line, and neither
    those nor headings have a full stop. A row of a table repeats the names of its columns. Lines without a
    letter or a digit, such as rules of dashes, are left out.
    """
    lines = [line.rstrip(" ") for line in note.splitlines()]
    width = max((len(line) for line in lines if len(line) <= _WIDEST), default=0)
    wrapped = _is_wrapped(lines, width)
    found: list[str] = []
    for block in _blocks(lines):
        if _is_row(block[0]):
            found += _rows(block)
        else:
            found += (sentence for line in _joined(block, width, wrapped) for sentence in _split(line))
    return found


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Lines that may belong together: a paragraph, a heading, a list item, or the rows of a table."""
    block: list[str] = []
    for line in [*lines, ""]:
        if block and not _joins(block, line):
            yield block
            block = []
        if block or _says_something(line):
            block.append(line)


def _joins(block: Sequence[str], line: str) -> bool:
    """Whether a line may belong to the block above it."""
    last = block[-1]
    if not line.strip() or _is_heading(last):
        return False
    if _is_row(block[0]):
        return _is_row(line) or not _says_something(line)
    if not _says_something(line) or _is_row(line) or _ITEM.match(line):
        return False
    return not _begins_anew(line) or (len(last) >= _NARROWEST and _is_unfinished(last))


def _is_wrapped(lines: Sequence[str], width: int) -> bool:
    """Whether most lines break where the next word would have gone over the width."""
    breaks = [
        _is_full(one, other, width)
        for one, other in pairwise(lines)
        if one.strip() and other.strip() and not _begins_anew(other)
    ]
    return len(breaks) > 1 and sum(breaks) >= _MOSTLY * len(breaks)


def _is_full(line: str, following: str, width: int) -> bool:
    return _NARROWEST <= len(line) <= width < len(line) + 1 + len(following.split(maxsplit=1)[0])


def _joined(block: Sequence[str], width: int, wrapped: bool) -> Iterator[str]:
    """The lines of a block, wrapped ones joined.

    Args:
        block: Not stripped at their beginnings.
        width: Of the note, in characters.
        wrapped: Whether the note is wrapped at it.
    """
    breaks = list(pairwise(block))
    low = block[0].lstrip()[:1].islower()
    sure = [_continues(one, other, low=low) for one, other in breaks]
    likely = sum(one or _is_full(*lines, width) for one, lines in zip(sure, breaks, strict=True))
    prose = any(sure) and 2 * likely >= sum(not one.endswith(_ENDS) for one, _ in breaks)
    text, begin = block[0].strip(), block[0]
    for (line, following), certain in zip(breaks, sure, strict=True):
        near = wrapped and _NEARLY * width <= len(line) <= width
        if certain or near or (prose and len(line) <= _WIDEST) or _is_below(begin, following):
            hyphen = text[-1:] == "-" and text[-2:-1].isalpha()
            text += following.strip() if hyphen else f" {following.strip()}"
        else:
            yield text
            text, begin = following.strip(), following
    yield text


def _continues(line: str, following: str, *, low: bool) -> bool:
    """Whether a sentence certainly continues in the following line.

    Args:
        line: Not stripped at its beginning.
        following: The next one.
        low: Whether sentences of the block begin with small letters.
    """
    if _is_unfinished(line):
        return True
    if line.endswith(_ENDS):
        return False
    following = following.strip()
    small = following[0].islower() and not low and _NARROWEST <= len(line) <= _WIDEST
    printed = _PRINTED.search(f"{line}\n{following}")
    return small or printed is not None or _CONTINUES.match(following) is not None


def _is_unfinished(line: str) -> bool:
    return _UNFINISHED.search(line) is not None or any(
        line.rfind(opening) > line.rfind(closing) for opening, closing in (("(", ")"), ("[**", "**]"))
    )


def _is_below(item: str, line: str) -> bool:
    """Whether a line is indented under the list item that it belongs to."""
    indent = len(line) - len(line.lstrip())
    return indent > len(item) - len(item.lstrip()) and _ITEM.match(item) is not None


def _begins_anew(line: str) -> bool:
    return any(sign.match(line) for sign in (_ITEM, _LABEL, _STAMP)) or _is_heading(line)


def _is_heading(line: str) -> bool:
    """Whether it is `PAST MEDICAL HISTORY` or `Hospital course:`."""
    text = line.strip()
    return (text.endswith(":") and not text[0].islower()) or (text.isupper() and len(text) < _NARROWEST)


def _says_something(line: str) -> bool:
    return any(character.isalnum() for character in line)


def _split(line: str) -> Iterator[str]:
    """Sentences of one line; the sign of a list item stays with its first."""
    import sentencex

    line = line.expandtabs()
    sign = _ITEM.match(line)
    begin = sign.end() if sign else 0
    found: list[str] = []
    for part in _DOSED.sub(lambda match: f"{match[0].rstrip()}\n", line[begin:]).split("\n"):
        first = len(found)
        for piece in map(str.strip, sentencex.segment("en", part)):
            if len(found) > first and _is_open(found[-1], piece):
                found[-1] = f"{found[-1]} {piece}"
            else:
                found.append(piece)
    for number, sentence in enumerate(found):
        if _says_something(sentence):
            yield f"{sign[0].strip()} {sentence}" if sign and number == 0 else sentence


def _is_open(sentence: str, following: str) -> bool:
    """Whether a full stop belongs to an abbreviation: `drank approx. | 3 L`, `Est. | GFR 30`, `C. | diff`."""
    word = sentence.rpartition(" ")[2].lower().lstrip("(")
    if following[:1].islower() and len(word) == 2 and word[0].isalpha():
        return True
    if following.startswith("[**") and _INITIAL.search(sentence):
        return True
    return word in _ABBREVIATIONS and (word == sentence.lower() or not following[:1].isupper())


def _is_row(line: str) -> bool:
    """Whether a line has the cells of a table: two that a sign separates, or three that blanks do."""
    return len(_cells(line)) > (1 if "|" in line or "\t" in line.strip() else 2)


def _cells(line: str) -> list[_Cell]:
    sign = next((one for one in "|\t" if one in line.strip()), None)
    if sign is not None:
        # A number as place: the widths of such cells do not line up.
        parts = line.split(sign)
        return [_Cell(one.strip(), 10 * n, 10 * n) for n, one in enumerate(parts) if one.strip()]
    cells, begin = [], len(line) - len(line.lstrip())
    for gap in [*_GAP.finditer(line), None]:
        end = gap.start() if gap else len(line)
        cells.append(_Cell(line[begin:end].strip(), begin, end - 1))
        begin = gap.end() if gap else end
    return cells


def _rows(block: Sequence[str]) -> Iterator[str]:
    """The rows of a table; those below names of columns repeat them."""
    ruled = len(block) > 1 and not _says_something(block[1])
    first, *rows = (line for line in block if _says_something(line))
    header = _cells(first)
    values = [any(map(str.isdigit, cell.text)) for row in rows for cell in _cells(row)[1:]]
    named = ruled or all(_COLUMN.fullmatch(cell.text) for cell in header)
    if not rows or not named or 2 * sum(values) < len(values):
        for line in block:
            yield from _split(line)
        return
    yield first.strip()
    for row in rows:
        yield _labelled(first, row)


def _labelled(first: str, row: str) -> str:
    """A row with the name of its column before each value, or all names after it where places do not tell."""
    header, cells = _cells(first), _cells(row)
    above = [
        [name for name in header if cell.start <= name.end + 1 and name.start <= cell.end + 1]
        for cell in cells
    ]
    if cells[0].end < header[0].start:
        above[0] = [_Cell("", -1, -1)]
    names = [names[0] for names in above if len(names) == 1]
    same = all(first.count(sign) == row.count(sign) for sign in "|\t")
    if not same or len(names) < len(cells) or len(set(names)) < len(names):
        return f"{row.strip()} (columns: {', '.join(name.text for name in header)})"
    return "; ".join(
        f"{name.text}: {cell.text}" if name.text else cell.text
        for name, cell in zip(names, cells, strict=True)
    )
