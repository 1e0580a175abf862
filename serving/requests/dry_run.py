"""Dry runs: a backend with made-up replies, and estimated tokens of a run."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from serving.backends.backend import Backend
from serving.protocol.errors import CallError
from serving.protocol.messages import Answer, Message, weighed
from serving.protocol.request import AnyRequest
from serving.protocol.thinking import EXPECTED_THINKING

Write = Callable[[AnyRequest, int], str]
"""Makes up the reply to one sample of a request."""

CHARACTERS_A_TOKEN = 4
"""For English text, as an estimate."""

_REMEMBERED = 4096
_MAX_FAILURES = 3

# One token in every tokenizer that we know.
_WORD = "a"
_ASKED = Message("user", _WORD)

_CHOSEN_SHARE = 0.9
"""Probability of the choice that is made up."""


@dataclass(slots=True)
class Tally:
    """Estimated use of a role, or of one of its tasks. A call is one sample of one prompt.

    Attributes:
        requests: Several samples of a prompt can be one request, which reads the prompt once.
        estimated: Requests of which a count is an estimate.
        thinking_tokens: Assumed for models that think, on top of `output_tokens`.
        sent: The options of its largest request.
    """

    calls: int = 0
    requests: int = 0
    estimated: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    sent: AnyRequest | None = None


Tallies = dict[tuple[str, str], Tally]
"""By role and name of the reply's format: a role can have several tasks."""


def added(parts: Iterable[Tally]) -> Tally:
    """The sum of tallies."""
    total = Tally()
    for part in parts:
        total.calls += part.calls
        total.requests += part.requests
        total.estimated += part.estimated
        total.input_tokens += part.input_tokens
        total.output_tokens += part.output_tokens
        total.thinking_tokens += part.thinking_tokens
        total.sent = _larger(total.sent, part.sent)
    return total


def _larger(one: AnyRequest | None, other: AnyRequest | None) -> AnyRequest | None:
    if one is None or other is None:
        return one or other
    return other if other.max_reply_tokens > one.max_reply_tokens else one


def options_sent(request: AnyRequest) -> str:
    """The options of a request in one line, for people."""
    parts = [f"{request.limit_field} {request.max_tokens:,}"]
    parts.append("no temperature" if request.temperature is None else f"temperature {request.temperature:g}")
    if request.effort is not None:
        parts.append(f"effort {request.effort}")
    if len(request.samples) > 1:
        parts.append(f"n {len(request.samples)}")
    if request.seed is not None:
        parts.append("a seed")
    if request.logprobs:
        parts.append("log-probabilities")
    if request.schema is not None:
        parts.append("schema by the prompt only" if request.constraint == "none" else request.constraint)
    return ", ".join(parts)


def without_model(backend: Backend, write: Write, tallies: Tallies) -> Backend:
    """The same backend with made-up replies; no model is asked."""
    counter = TokenCounter(backend.count_tokens)

    async def complete(request: AnyRequest) -> list[Answer]:
        texts = [write(request, sample) for sample in request.samples]
        read = await counter.conversation(request.messages)
        written = [await counter.reply(text) for text in texts]
        answers = [
            Answer(
                text=text,
                finish_reason="stop",
                # As in a run, the prompt is counted once for all samples of a request.
                input_tokens=read.tokens if index == 0 else 0,
                output_tokens=min(count.tokens, request.max_tokens),
                logprobs=(weighed(_shares(text, request.choices)),) if request.choices else (),
            )
            for index, (text, count) in enumerate(zip(texts, written, strict=True))
        ]
        tally = tallies.setdefault((request.role, request.reply.name), Tally())
        tally.calls += len(answers)
        tally.requests += 1
        tally.sent = _larger(tally.sent, request)
        tally.estimated += not all(count.exact for count in (read, *written))
        tally.input_tokens += read.tokens
        tally.output_tokens += sum(answer.output_tokens for answer in answers)
        if backend.abilities.may_think(request.effort):
            tally.thinking_tokens += len(answers) * EXPECTED_THINKING[request.effort]
        return answers

    return replace(
        backend,
        servers=tuple(
            replace(server, complete=complete, is_up=None, reached=True) for server in backend.servers
        ),
        # The nodes measure some of the prompts too.
        count_tokens=counter.exactly if backend.count_tokens is not None else None,
    )


class Count(NamedTuple):
    """Tokens of a text; not `exact` where they are estimated by its length."""

    tokens: int
    exact: bool


class TokenCounter:
    """Counts with a backend's tokenizer, each conversation once."""

    def __init__(self, count_tokens: Callable[[Sequence[Message]], Awaitable[int]] | None) -> None:
        """Without a tokenizer, or once it has failed several times, everything is estimated."""
        self._count_tokens = count_tokens
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._failures = 0

    async def exactly(self, messages: Sequence[Message]) -> int:
        """Tokens of a conversation, up to the model's turn.

        Raises:
            CallError: A tokenizer is missing or does not answer.
        """
        if self._count_tokens is None or self._failures >= _MAX_FAILURES:
            raise CallError("internal", "no tokenizer counts for this model")
        key = hashlib.sha256(json.dumps([(one.role, one.text) for one in messages]).encode()).digest()
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        try:
            tokens = await self._count_tokens(messages)
        except CallError:
            self._failures += 1
            raise
        self._known[key] = tokens
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return tokens

    async def conversation(self, messages: Sequence[Message]) -> Count:
        try:
            return Count(await self.exactly(messages), exact=True)
        except CallError:
            return Count(_estimate("".join(message.text for message in messages)), exact=False)

    async def reply(self, text: str) -> Count:
        """Tokens that a model generates for a text, including the one that ends its turn."""
        try:
            bare = await self.exactly([_ASKED])
            shortest = await self.exactly(_said(_WORD))
            whole = await self.exactly(_said(text))
        except CallError:
            return Count(_estimate(text), exact=False)
        # A template without marks between turns has no token for their end either.
        end = 1 if shortest > bare + 2 else 0
        return Count(whole - shortest + 1 + end, exact=True)


def _shares(chosen: str, choices: Sequence[str]) -> dict[str, float]:
    rest = (1.0 - _CHOSEN_SHARE) / max(1, len(choices) - 1)
    return {choice: _CHOSEN_SHARE if choice == chosen else rest for choice in choices}


def _said(text: str) -> tuple[Message, ...]:
    """A text as a model's turn. Another turn follows, because some templates expect the user's at the end."""
    return (_ASKED, Message("assistant", text), _ASKED)


def _estimate(text: str) -> int:
    return -(-len(text) // CHARACTERS_A_TOKEN)
