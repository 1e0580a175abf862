"""The forms that a labelling can be replied in; a recipe chooses one for votes, reflections and examples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from nodes.core.records import ReplyFormName, Vote
from nodes.core.wording import essential_list, label_map
from nodes.evidence.id_reply import id_reply, id_reply_tokens
from nodes.evidence.label_confidence import label_confidence
from nodes.evidence.label_reply import label_reply, reply_tokens
from serving.ask import Reply
from serving.reply import ReplyFormat, TokenLogprob


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
    """None: a list has no place where a sentence is weighed by itself."""
    return {}


REPLY_FORMS: Mapping[ReplyFormName, ReplyForm] = {
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


def read_vote(form: ReplyForm, index: int, reply: Reply[list[str]], sentence_ids: Sequence[str]) -> Vote:
    """A reply as a vote, with its confidence where the reply came with log-probabilities that show it."""
    vote = Vote(vote=index, essential=reply.value)
    if reply.logprobs and (confidence := form.confidence(reply.logprobs, sentence_ids)):
        vote["confidence"] = confidence
    return vote
