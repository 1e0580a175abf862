"""The full map of labels as a reply: exactly the sentence ids of one case (the paper's form)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from serving.errors import InvalidReply
from serving.reply import ReplyFormat, first_json_object

_LABELS = ("essential", "not-essential")
_LONGEST_LIST = 12

TOKENS_PER_SENTENCE = 16
"""Room for `"123": "not-essential", ` with any tokenizer."""


def label_reply(sentence_ids: Sequence[str], fallback: Collection[str] = ()) -> ReplyFormat[list[str]]:
    """The format of a label map; its value is the list of essential ids in note order.

    A reply that still misses ids after the correction turn is completed: with the labels of `fallback`
    (the essential ids of an earlier stage), or as not-essential.
    """

    def parse(text: str) -> list[str]:
        return parse_labels(text, sentence_ids)

    def rescue(text: str) -> list[str]:
        return complete_labels(text, sentence_ids, fallback)

    return ReplyFormat("labels", label_schema(sentence_ids), parse, rescue)


def label_schema(sentence_ids: Sequence[str]) -> dict[str, object]:
    """JSON schema with one required label for each sentence and nothing else."""
    return {
        "type": "object",
        "properties": {id_: {"type": "string", "enum": list(_LABELS)} for id_ in sentence_ids},
        "required": list(sentence_ids),
        "additionalProperties": False,
    }


def reply_tokens(sentences: int) -> int:
    """Token limit of a label map."""
    return 32 + TOKENS_PER_SENTENCE * sentences


def parse_labels(text: str, sentence_ids: Sequence[str]) -> list[str]:
    """Read a complete label map.

    Raises:
        InvalidReply: Names missing ids, unknown ids and unknown labels.
    """
    reply = first_json_object(text)
    known = frozenset(sentence_ids)
    faults = [
        fault_of("missing sentence ids", [id_ for id_ in sentence_ids if id_ not in reply]),
        fault_of("unknown sentence ids", [id_ for id_ in reply if id_ not in known]),
        fault_of(
            f"labels other than {' and '.join(_LABELS)} for",
            [id_ for id_ in sentence_ids if id_ in reply and reply[id_] not in _LABELS],
        ),
    ]
    if found := [fault for fault in faults if fault]:
        raise InvalidReply("; ".join(found))
    return [id_ for id_ in sentence_ids if reply[id_] == "essential"]


def complete_labels(text: str, sentence_ids: Sequence[str], fallback: Collection[str]) -> list[str]:
    """Read what can be read: unknown ids and labels are dropped, missing labels come from `fallback`.

    Raises:
        InvalidReply: Not a single valid label; that is no vote.
    """
    reply = first_json_object(text)
    valid = {id_: reply[id_] for id_ in sentence_ids if reply.get(id_) in _LABELS}
    if not valid:
        raise InvalidReply("the reply labels no sentence of the note")
    return [id_ for id_ in sentence_ids if (valid.get(id_) == "essential" or _kept(id_, valid, fallback))]


def fault_of(what: str, ids: Sequence[str]) -> str:
    """A fault and the ids that have it, the list cut where it is long; empty without ids."""
    if not ids:
        return ""
    more = f" and {len(ids) - _LONGEST_LIST} more" if len(ids) > _LONGEST_LIST else ""
    return f"{what}: {', '.join(ids[:_LONGEST_LIST])}{more}"


def _kept(id_: str, valid: dict[str, object], fallback: Collection[str]) -> bool:
    return id_ not in valid and id_ in fallback
