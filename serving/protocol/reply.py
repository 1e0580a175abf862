"""Form of a reply: a JSON schema for the provider, and a parser that names faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from serving.protocol.errors import InvalidReply

T = TypeVar("T")

JsonSchema = dict[str, Any]

CITED_TEXT = "cited_answer"
"""Name of the format of free text whose sentences cite numbered lines of the prompt."""


@dataclass(frozen=True, slots=True)
class ReplyFormat(Generic[T]):
    """The format of a reply.

    Attributes:
        name: A short identifier that providers show with the schema.
        schema: JSON schema of the reply, or None for free text.
        parse: Text to value. Raises `InvalidReply` with a fault that can be quoted to the model.
        fallback: A second, more forgiving parser, for when the correction turn has failed too.
        may_be_cut: Whether a reply that ran into the token limit can still be used, as free text can.
        choices: Words of which one is the reply, where their log-probabilities at its first token are all
            that is wanted; they differ from their first letter on. Empty for every other format.
    """

    name: str
    schema: JsonSchema | None
    parse: Callable[[str], T]
    fallback: Callable[[str], T] | None = None
    may_be_cut: bool = False
    choices: tuple[str, ...] = ()


_MAX_STARTS = 50
"""Braces tried as the start of an object: a model may write a few while it thinks aloud."""


def first_json_object(text: str) -> dict[str, Any]:
    """Parse the first JSON object in a text; models like to add words and code fences around it.

    Raises:
        InvalidReply: There is none, or it does not parse.
    """
    decoder = json.JSONDecoder()
    fault = "the reply holds no JSON object"
    start = -1
    for _ in range(_MAX_STARTS):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            value, _end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            fault = f"the reply is not valid JSON: {error.msg} at character {error.pos}"
        except RecursionError:
            fault = "the reply is nested too deeply"
        except ValueError:
            fault = "the reply holds a number that is too long"
        else:
            return dict(value)
    raise InvalidReply(fault)


def free_text(text: str) -> str:
    """Accept any text that is not blank."""
    if not text.strip():
        raise InvalidReply("the reply is empty")
    return text.strip()


FREE_TEXT = ReplyFormat("text", None, free_text)
"""Form of probe replies, which only show a model's behaviour."""
