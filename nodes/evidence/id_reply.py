"""The ids of essential sentences as a reply: what a full map of labels says, in a fraction of its tokens."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from nodes.core.wording import essential_list
from nodes.evidence.label_reply import fault_of
from serving.errors import InvalidReply
from serving.reply import ReplyFormat, first_json_object

FIELD = "essential"
_SLACK_TOKENS = 32


def id_reply(sentence_ids: Sequence[str]) -> ReplyFormat[list[str]]:
    """The format `{"essential": ["2", "5"]}`; its value is the list of ids in note order.

    Nothing can be missing from such a list, so what is left after the correction turn is read as it is:
    unknown ids are dropped.
    """

    def parse(text: str) -> list[str]:
        return parse_ids(text, sentence_ids)

    def rescue(text: str) -> list[str]:
        return known_ids(text, sentence_ids)

    return ReplyFormat("essential_ids", id_schema(sentence_ids), parse, rescue)


def id_schema(sentence_ids: Sequence[str]) -> dict[str, object]:
    """JSON schema with one list of different ids."""
    ids = {"type": "string", "enum": list(sentence_ids)}
    return {
        "type": "object",
        "properties": {FIELD: {"type": "array", "items": ids, "uniqueItems": True}},
        "required": [FIELD],
        "additionalProperties": False,
    }


def id_reply_tokens(sentence_ids: Sequence[str]) -> int:
    """Token limit: the list of all ids at one token a byte, which no tokenizer exceeds, and some slack."""
    return _SLACK_TOKENS + len(essential_list(sentence_ids, sentence_ids).encode())


def parse_ids(text: str, sentence_ids: Sequence[str]) -> list[str]:
    """Read a list of ids; their order does not matter.

    Raises:
        InvalidReply: Names what is no id of the note, what stands twice, and other fields.
    """
    reply = first_json_object(text)
    found = _list(reply)
    known = frozenset(sentence_ids)
    texts = [item for item in found if isinstance(item, str)]
    faults = [
        fault_of("unknown fields", [name for name in reply if name != FIELD]),
        fault_of(
            "ids that are no strings", [reprlib.repr(item) for item in found if not isinstance(item, str)]
        ),
        fault_of("unknown sentence ids", [id_ for id_ in dict.fromkeys(texts) if id_ not in known]),
        fault_of(
            "sentence ids that stand more than once",
            [id_ for id_, times in Counter(texts).items() if times > 1],
        ),
    ]
    if broken := [fault for fault in faults if fault]:
        raise InvalidReply("; ".join(broken))
    named = frozenset(texts)
    return [id_ for id_ in sentence_ids if id_ in named]


def known_ids(text: str, sentence_ids: Sequence[str]) -> list[str]:
    """Read what can be read: numbers count as ids, unknown ids and repetitions are dropped.

    Raises:
        InvalidReply: No list; that is no vote.
    """
    found = _list(first_json_object(text))
    named = {str(item) for item in found if isinstance(item, str | int) and not isinstance(item, bool)}
    return [id_ for id_ in sentence_ids if id_ in named]


def _list(reply: dict[str, Any]) -> list[Any]:
    found = reply.get(FIELD)
    if not isinstance(found, list):
        raise InvalidReply(f"{FIELD!r} must be a list of sentence ids")
    return found
