"""The forms that a labelling can be replied in; a recipe chooses one for votes, reflections and examples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from nodes.id_reply import id_reply, id_reply_tokens
from nodes.label_reply import label_reply, reply_tokens
from nodes.records import ReplyFormName
from nodes.wording import essential_list, label_map
from serving.reply import ReplyFormat


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """A way to write down which sentences are essential.

    Attributes:
        instruction: The sentence of the prompt that asks for it, `${reply_form}`.
        reply: From sentence ids, and the essential ids of an earlier stage, to the reply's format.
        tokens: Token limit of a reply on these sentence ids.
        write: From sentence ids and the essential ones to the text that a model would reply.
    """

    instruction: str
    reply: Callable[[Sequence[str], Collection[str]], ReplyFormat[list[str]]]
    tokens: Callable[[Sequence[str]], int]
    write: Callable[[Sequence[str], Collection[str]], str]


REPLY_FORMS: Mapping[ReplyFormName, ReplyForm] = {
    "labels": ReplyForm(
        instruction="Reply with JSON only: an object with every sentence id, in order, and its label.",
        reply=label_reply,
        tokens=lambda sentence_ids: reply_tokens(len(sentence_ids)),
        write=label_map,
    ),
    "ids": ReplyForm(
        instruction=(
            'Reply with JSON only: {"essential": [...]} with the ids of the essential sentences, in order,'
            " as strings; an empty list if no sentence is essential."
        ),
        reply=lambda sentence_ids, _: id_reply(sentence_ids),
        tokens=id_reply_tokens,
        write=essential_list,
    ),
}
