"""A question with a tiny reply format, and shortcuts to its outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from serving.backends import Backend
from serving.protocol.errors import ErrorClass, InvalidReply
from serving.protocol.limits import Limits
from serving.protocol.messages import Message
from serving.protocol.model_name import ModelName, Role
from serving.protocol.reply import JsonSchema, ReplyFormat, first_json_object
from serving.protocol.request import AnyRequest, Failure, Reply, Request
from serving.requests.client import ModelClient

PROMPT = (Message("system", "Answer with one word."), Message("user", "Was the drug stopped?"))
PROMPT_WORDS = 8

SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["word"],
    "additionalProperties": False,
}

WRONG = '{"word": "perhaps"}'
FAULT = "'word' must be yes or no"


class Connect(Protocol):
    """Makes a client of the server under test."""

    def __call__(
        self, max_retries: int = ..., backend: Backend = ..., limits: Limits | None = ...
    ) -> ModelClient: ...


Reach = Callable[[ModelName], Backend]


def said(word: str) -> str:
    return json.dumps({"word": word})


def parse(text: str) -> str:
    word = first_json_object(text).get("word")
    if word not in ("yes", "no"):
        raise InvalidReply(FAULT)
    return str(word)


def fall_back(text: str) -> str:
    if "perhaps" not in text:
        raise InvalidReply("nothing to read")
    return "no"


WORD = ReplyFormat("word", SCHEMA, parse)
FORGIVING = ReplyFormat("word", SCHEMA, parse, fall_back)


def word_ask(
    *,
    samples: tuple[int, ...] = (0,),
    reply: ReplyFormat[str] = WORD,
    role: Role = "label",
    case_id: str = "7",
    messages: tuple[Message, ...] = PROMPT,
    max_tokens: int = 40,
    logprobs: bool = False,
) -> Request[str]:
    return Request(
        role,
        case_id,
        messages,
        reply,
        samples,
        temperature=0.7,
        max_tokens=max_tokens,
        seed=5,
        logprobs=logprobs,
    )


def as_sent(
    schema: JsonSchema | None = None,
    name: str = "word",
    *,
    messages: tuple[Message, ...] = PROMPT,
    choices: tuple[str, ...] = (),
    **fields: Any,
) -> AnyRequest:
    """A request without any parameter that is not given."""
    reply = ReplyFormat(name, schema, str, choices=choices)
    plain = Request("label", "7", messages, reply, max_tokens=40, seed=None)
    return replace(plain, **fields)


def words(outcomes: Sequence[Reply[str] | Failure]) -> list[str | ErrorClass]:
    """The value of each reply, the class of each failure."""
    return [
        outcome.value if isinstance(outcome, Reply) else outcome.error.error_class for outcome in outcomes
    ]


def turns(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in body["messages"]]
