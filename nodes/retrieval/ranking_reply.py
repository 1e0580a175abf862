"""The reply in which a model puts numbered candidates in an order, best first."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from serving.errors import InvalidReply
from serving.reply import ReplyFormat, first_json_object

RANKING_REPLY = "ranking"
"""Name of the reply's format, and of its field."""

_LIST = re.compile(r"\[[^\[\]{}]*\]")


class Permutation(NamedTuple):
    """What a reply puts first, and what was wrong with it.

    Attributes:
        ids: Of candidates, best first, none twice.
        unknown: What is neither a number of a candidate nor its id, shortened for people.
        repeated: How often a candidate was named once more.
    """

    ids: list[str]
    unknown: list[str]
    repeated: int


def ranking_reply(ids: Sequence[str], wanted: int) -> ReplyFormat[Permutation]:
    """The format `{"ranking": [3, 1]}` for candidates that are numbered from 1.

    The schema does not ask for different numbers: the grammars of local models write such lists in the order
    of the schema, which would be no ranking at all.
    """
    count = min(wanted, len(ids))
    numbers = {"type": "integer", "enum": list(range(1, len(ids) + 1))}

    def parse(text: str) -> Permutation:
        return read_permutation(text, ids, wanted)

    return ReplyFormat(
        name=RANKING_REPLY,
        schema={
            "type": "object",
            "properties": {
                RANKING_REPLY: {"type": "array", "items": numbers, "minItems": count, "maxItems": count}
            },
            "required": [RANKING_REPLY],
            "additionalProperties": False,
        },
        parse=parse,
    )


def read_permutation(text: str, ids: Sequence[str], wanted: int) -> Permutation:
    """Read numbers or document ids; what is unknown or stands twice is dropped and counted.

    A number that could be both is the number of a candidate.

    Raises:
        InvalidReply: No list, or one that names no candidate.
    """
    places = {str(number): id_ for number, id_ in enumerate(ids, start=1)}
    known = frozenset(ids)
    chosen: dict[str, None] = {}
    unknown: list[str] = []
    repeated = 0
    for item in _items(text):
        name = _name(item)
        id_ = places.get(name, name if name in known else None)
        if id_ is None:
            unknown.append(reprlib.repr(item))
        elif id_ in chosen:
            repeated += 1
        else:
            chosen[id_] = None
    if not chosen:
        raise InvalidReply(f"{RANKING_REPLY!r} must be a list of numbers from 1 to {len(ids)}, best first")
    return Permutation(list(chosen)[:wanted], unknown, repeated)


def _items(text: str) -> list[Any]:
    try:
        found = first_json_object(text).get(RANKING_REPLY)
    except InvalidReply:
        # A bare list says as much.
        found = _bare_list(text)
    if not isinstance(found, list):
        raise InvalidReply(f"{RANKING_REPLY!r} must be a list of numbers, best first")
    return found


def _bare_list(text: str) -> object:
    match = _LIST.search(text)
    if match is None:
        return None
    try:
        return json.loads(match[0])
    except (ValueError, RecursionError):
        return None


def _name(item: object) -> str:
    if isinstance(item, bool) or not isinstance(item, str | int):
        return ""
    return str(item).strip().strip("[]")
