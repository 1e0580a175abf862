"""Links from answer sentences to note sentences as a reply: exactly the ids of one case and its answer."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nodes.evidence.label_reply import fault_of
from serving.errors import InvalidReply
from serving.reply import ReplyFormat, first_json_object

ALIGNMENT_REPLY = "alignment"
"""Name of the reply's format."""

_SLACK_TOKENS = 32


class Alignment(NamedTuple):
    """What a reply links, and what had to be mended to read it.

    Attributes:
        links: Ids of note sentences in note order, by the id of the answer sentence, in answer order.
        dropped: Ids that the note does not have.
        missing: Ids of answer sentences without a list; theirs is empty.
    """

    links: dict[str, list[str]]
    dropped: int = 0
    missing: int = 0


def alignment_reply(answer_ids: Sequence[str], sentence_ids: Sequence[str]) -> ReplyFormat[Alignment]:
    """The format `{"1": ["2", "5"], "2": []}` for the ids of an answer and of a note."""

    def parse(text: str) -> Alignment:
        return parse_alignment(text, answer_ids, sentence_ids)

    def rescue(text: str) -> Alignment:
        return rescue_alignment(text, answer_ids, sentence_ids)

    return ReplyFormat(ALIGNMENT_REPLY, alignment_schema(answer_ids, sentence_ids), parse, rescue)


def alignment_schema(answer_ids: Sequence[str], sentence_ids: Sequence[str]) -> dict[str, object]:
    """JSON schema with one required list of different note ids for each answer sentence."""
    ids = {"type": "string", "enum": list(sentence_ids)}
    return {
        "type": "object",
        "properties": {id_: {"type": "array", "items": ids, "uniqueItems": True} for id_ in answer_ids},
        "required": list(answer_ids),
        "additionalProperties": False,
    }


def alignment_reply_tokens(answer_ids: Sequence[str], sentence_ids: Sequence[str]) -> int:
    """Token limit: every link at one token a byte, which no tokenizer exceeds, and some slack."""
    everything = write_alignment({id_: sentence_ids for id_ in answer_ids})
    return _SLACK_TOKENS + len(everything.encode())


def write_alignment(links: Mapping[str, Sequence[str]]) -> str:
    """Links as the JSON that a model is asked for."""
    return json.dumps({id_: list(cited) for id_, cited in links.items()}, ensure_ascii=False)


def parse_alignment(text: str, answer_ids: Sequence[str], sentence_ids: Sequence[str]) -> Alignment:
    """Read all links; order and repetition do not matter, and numbers count as ids.

    Raises:
        InvalidReply: Names missing and unknown ids of the answer, values that are no lists, and ids that the
            note does not have.
    """
    reply = first_json_object(text)
    named = {id_: reply[id_] for id_ in answer_ids if isinstance(reply.get(id_), list)}
    items = [_id(item) for cited in named.values() for item in cited]
    faults = [
        fault_of("missing ids of answer sentences", [id_ for id_ in answer_ids if id_ not in reply]),
        fault_of("unknown ids of answer sentences", [id_ for id_ in reply if id_ not in set(answer_ids)]),
        fault_of("values that are no lists for", [id_ for id_ in answer_ids if id_ in reply.keys() - named]),
        fault_of(
            "ids that the note does not have",
            [id_ for id_ in dict.fromkeys(items) if id_ not in set(sentence_ids)],
        ),
    ]
    if broken := [fault for fault in faults if fault]:
        raise InvalidReply("; ".join(broken))
    return _read(named, answer_ids, sentence_ids)


def rescue_alignment(text: str, answer_ids: Sequence[str], sentence_ids: Sequence[str]) -> Alignment:
    """Read what can be read: unknown ids are dropped and counted, a missing list is empty and counted.

    Raises:
        InvalidReply: Not a single list for a sentence of the answer; that is no alignment.
    """
    reply = first_json_object(text)
    named = {id_: reply[id_] for id_ in answer_ids if isinstance(reply.get(id_), list)}
    if not named:
        raise InvalidReply("the reply has no list for any sentence of the answer")
    return _read(named, answer_ids, sentence_ids)


def _read(
    named: Mapping[str, Sequence[Any]], answer_ids: Sequence[str], sentence_ids: Sequence[str]
) -> Alignment:
    links: dict[str, list[str]] = {}
    dropped = 0
    for answer_id in answer_ids:
        cited = {_id(item) for item in named.get(answer_id, ())}
        links[answer_id] = [id_ for id_ in sentence_ids if id_ in cited]
        dropped += len(cited) - len(links[answer_id])
    return Alignment(links, dropped, len(answer_ids) - len(named))


def _id(item: object) -> str:
    """An id as text; anything else than text or a number as what it looks like, which is no id of a note."""
    if isinstance(item, str):
        return item
    return str(item) if isinstance(item, int) and not isinstance(item, bool) else f"({reprlib.repr(item)})"
