"""The forms that a labelling can be replied in; a recipe chooses one for votes, reflections and examples.

The form `pointwise`, which asks for each sentence by itself, is in `pointwise.py`.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

from nodes.core.choice_confidence import choice_shares
from nodes.core.json_reply import as_id, choice_schema, ids_schema, most_tokens, object_schema, refuse
from nodes.core.records import ReplyFormName, Vote
from nodes.core.wording import essential_list, label_map
from nodes.evidence.settings import AUTO, VoteSettings
from prompts import Prompt
from serving.protocol.errors import InvalidReply
from serving.protocol.messages import TokenLogprob
from serving.protocol.reply import JsonSchema, ReplyFormat, first_json_object
from serving.protocol.request import Reply

_LABELS = ("essential", "not-essential")

TOKENS_PER_SENTENCE = 16
"""Room for `"123": "not-essential", ` with any tokenizer."""


def label_reply(sentence_ids: Sequence[str], fallback: Collection[str] = ()) -> ReplyFormat[list[str]]:
    """The format of a label map; its value is the list of essential ids in note order.

    A reply that still misses ids after the correction turn is completed: with the labels of `fallback`
    (the essential ids of an earlier stage), or as not-essential.
    """
    return ReplyFormat(
        "labels",
        label_schema(sentence_ids),
        partial(parse_labels, sentence_ids=sentence_ids),
        partial(complete_labels, sentence_ids=sentence_ids, fallback=fallback),
    )


def label_schema(sentence_ids: Sequence[str]) -> JsonSchema:
    """JSON schema with exactly one required label for each sentence."""
    return object_schema({id_: choice_schema(_LABELS) for id_ in sentence_ids})


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
    refuse(
        {
            "missing sentence ids": [id_ for id_ in sentence_ids if id_ not in reply],
            "unknown sentence ids": [id_ for id_ in reply if id_ not in known],
            f"labels other than {' and '.join(_LABELS)} for": [
                id_ for id_ in sentence_ids if id_ in reply and reply[id_] not in _LABELS
            ],
        }
    )
    return [id_ for id_ in sentence_ids if reply[id_] == "essential"]


def complete_labels(text: str, sentence_ids: Sequence[str], fallback: Collection[str]) -> list[str]:
    """Read what can be read: unknown ids and labels are dropped, missing labels come from `fallback`.

    Raises:
        InvalidReply: Not a single valid label, so it does not count as a vote.
    """
    reply = first_json_object(text)
    valid = {id_: reply[id_] for id_ in sentence_ids if reply.get(id_) in _LABELS}
    if not valid:
        raise InvalidReply("the reply labels no sentence of the note")
    return [
        id_ for id_ in sentence_ids if valid.get(id_) == "essential" or (id_ not in valid and id_ in fallback)
    ]


FIELD = "essential"


def id_reply(sentence_ids: Sequence[str]) -> ReplyFormat[list[str]]:
    """The format `{"essential": ["2", "5"]}`; its value is the list of ids in note order.

    Nothing can be missing from such a list, so a reply after the correction turn is read leniently: unknown
    ids are dropped.
    """
    return ReplyFormat(
        "essential_ids",
        id_schema(sentence_ids),
        partial(parse_ids, sentence_ids=sentence_ids),
        partial(known_ids, sentence_ids=sentence_ids),
    )


def id_schema(sentence_ids: Sequence[str]) -> JsonSchema:
    """JSON schema with one list of different ids."""
    return object_schema({FIELD: ids_schema(sentence_ids)})


def id_reply_tokens(sentence_ids: Sequence[str]) -> int:
    """Token limit: room for the list of all ids."""
    return most_tokens(essential_list(sentence_ids, sentence_ids))


def parse_ids(text: str, sentence_ids: Sequence[str]) -> list[str]:
    """Read a list of ids; their order does not matter.

    Raises:
        InvalidReply: Names unknown ids, repeated ids, and other fields.
    """
    reply = first_json_object(text)
    found = _list(reply)
    known = frozenset(sentence_ids)
    texts = [item for item in found if isinstance(item, str)]
    refuse(
        {
            "unknown fields": [name for name in reply if name != FIELD],
            "ids that are not strings": [reprlib.repr(item) for item in found if not isinstance(item, str)],
            "unknown sentence ids": [id_ for id_ in dict.fromkeys(texts) if id_ not in known],
            "repeated sentence ids": [id_ for id_, times in Counter(texts).items() if times > 1],
        }
    )
    named = frozenset(texts)
    return [id_ for id_ in sentence_ids if id_ in named]


def known_ids(text: str, sentence_ids: Sequence[str]) -> list[str]:
    """Read what can be read: numbers count as ids, unknown ids and repetitions are dropped.

    Raises:
        InvalidReply: Not a list, so it does not count as a vote.
    """
    found = _list(first_json_object(text))
    named = set(map(as_id, found))
    return [id_ for id_ in sentence_ids if id_ in named]


def _list(reply: dict[str, Any]) -> list[Any]:
    found = reply.get(FIELD)
    if not isinstance(found, list):
        raise InvalidReply(f"{FIELD!r} must be a list of sentence ids")
    return found


_STRING = r'"(?:[^"\\]|\\.)*"'
_PAIR = re.compile(rf'({_STRING})\s*:\s*"({"|".join(_LABELS)})"')


def label_confidence(tokens: Sequence[TokenLogprob], sentence_ids: Sequence[str]) -> dict[str, float | None]:
    """P(essential) of each sentence, from one reply that is a full map of labels.

    Args:
        tokens: Of the reply; their texts together are the reply.
        sentence_ids: In note order.

    Returns:
        Between 0 and 1, the probabilities of both labels normalised to 1. None for a sentence whose label the
        reply does not hold, or at whose place neither label can be seen.
    """
    starts = [0, *accumulate(len(token.token) for token in tokens)]
    deciding = _deciding_characters("".join(token.token for token in tokens))
    found: dict[str, float | None] = dict.fromkeys(sentence_ids)
    at = 0
    for position, id_ in sorted((position, id_) for id_, position in deciding.items()):
        while starts[at + 1] <= position:
            at += 1
        if id_ in found:
            shares = choice_shares(tokens[at], tokens[at].token[: position - starts[at]], _LABELS)
            found[id_] = None if shares is None else shares["essential"]
    return found


def mean_confidence(
    votes: Sequence[Mapping[str, float]], sentence_ids: Sequence[str]
) -> dict[str, float | None]:
    """Mean P(essential) over the votes that report it; None for a sentence without any."""
    by_id = {id_: [vote[id_] for vote in votes if id_ in vote] for id_ in sentence_ids}
    return {id_: _mean(values) if values else None for id_, values in by_id.items()}


def _mean(values: Sequence[float]) -> float:
    """Mean; a single value is not rounded, as sentences asked about separately would tie."""
    return values[0] if len(values) == 1 else round(sum(values) / len(values), 4)


def _deciding_characters(text: str) -> dict[str, int]:
    """Sentence id to the place of its label's first letter; the last label of an id counts, as in JSON."""
    pairs = _PAIR.finditer(text, *_object_span(text))
    return {json.loads(pair[1]): pair.start(2) for pair in pairs}


def _object_span(text: str) -> tuple[int, int]:
    """Begin and end of the first JSON object, nothing where there is none; a model may write around it."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            return start, decoder.raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
    return 0, 0


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """A way to write down which sentences are essential.

    Attributes:
        instruction: The sentence of the prompt that asks for it, `${reply_form}`.
        reply: From sentence ids, and the essential ids of an earlier stage, to the reply's format.
        tokens: Token limit of a reply on these sentence ids.
        write: From sentence ids and the essential ones to the text that a model would reply.
        confidence: From the tokens of a reply and sentence ids to P(essential) of those that it shows.
    """

    instruction: str
    reply: Callable[[Sequence[str], Collection[str]], ReplyFormat[list[str]]]
    tokens: Callable[[Sequence[str]], int]
    write: Callable[[Sequence[str], Collection[str]], str]
    confidence: Callable[[Sequence[TokenLogprob], Sequence[str]], dict[str, float]]


def _confidence_of_labels(tokens: Sequence[TokenLogprob], sentence_ids: Sequence[str]) -> dict[str, float]:
    """Rounded: a fifth digit would only make a trace longer."""
    shares = label_confidence(tokens, sentence_ids)
    return {id_: round(share, 4) for id_, share in shares.items() if share is not None}


def _confidence_of_ids(tokens: Sequence[TokenLogprob], sentence_ids: Sequence[str]) -> dict[str, float]:
    """Empty: a list has no position for the probability of a single sentence."""
    return {}


_FORMS: Mapping[ReplyFormName, ReplyForm] = {
    "labels": ReplyForm(
        instruction="Reply with JSON only: an object with every sentence id, in order, and its label.",
        reply=label_reply,
        tokens=lambda sentence_ids: reply_tokens(len(sentence_ids)),
        write=label_map,
        confidence=_confidence_of_labels,
    ),
    "ids": ReplyForm(
        instruction=(
            'Reply with JSON only: {"essential": [...]} with the ids of the essential sentences, in order,'
            " as strings; an empty list if no sentence is essential."
        ),
        reply=lambda sentence_ids, _: id_reply(sentence_ids),
        tokens=id_reply_tokens,
        write=essential_list,
        confidence=_confidence_of_ids,
    ),
}

REPLY_FORMS: Mapping[ReplyFormName, ReplyForm] = {**_FORMS, AUTO: _FORMS["labels"]}


def read_vote(form: ReplyForm, index: int, reply: Reply[list[str]], sentence_ids: Sequence[str]) -> Vote:
    """A reply as a vote, with its confidence where the reply came with log-probabilities that show it."""
    vote = Vote(vote=index, essential=reply.value)
    if reply.logprobs and (confidence := form.confidence(reply.logprobs, sentence_ids)):
        vote["confidence"] = confidence
    return vote


def lacks_reply_form(settings: VoteSettings, prompt: Prompt, version: str) -> str | None:
    """Fault of a prompt that cannot request the recipe's form; None if it can.

    Prompts may ask for the paper's form, the labels of all sentences, in their own words.
    """
    if settings.reply != "ids" or not settings.asks_model or prompt.uses("reply_form"):
        return None
    return (
        f"evidence.reply is 'ids', but prompt {prompt.name} of {version!r} has no"
        " ${reply_form} to ask for it; use prompts that have, such as 'default', or the reply 'labels'"
    )
