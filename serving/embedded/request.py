"""Requests to the engine and their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cases.texts import plural

FinishReason = Literal["stop", "length"]


class ContextLengthExceeded(Exception):
    """A prompt that leaves no room for a reply.

    Attributes:
        tokens: Length of the prompt.
        limit: Context length of the model.
    """

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            f"the prompt has {plural(tokens, 'token')}, the context length of the model is {limit}"
        )
        self.tokens = tokens
        self.limit = limit


class InvalidSchema(Exception):
    """A reply schema that cannot be compiled into a grammar."""


class InvalidChoices(Exception):
    """Two choices begin with the same token, so one token cannot distinguish them."""


class GenerationStopped(Exception):
    """The engine was stopped before the reply was complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and how to continue it.

    Attributes:
        prompt: Token ids.
        samples: Index of each wanted sample. A sample's randomness depends on the seed, the prompt and its
            index only, so sample 2 alone is sample 2 of three.
        temperature: 0 picks the likeliest token.
        max_new_tokens: Limit of one sample; the context length may end it earlier.
        schema: JSON schema that every sample has to follow.
        seed: Start of every sample's randomness.
        choices: Words of which the likeliest is the reply; nothing is decoded then. Empty for all others.
    """

    prompt: tuple[int, ...]
    samples: tuple[int, ...] = (0,)
    temperature: float = 0.0
    max_new_tokens: int = 512
    schema: Mapping[str, Any] | None = None
    seed: int = 0
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One continuation; `shares` are the log-probabilities of the choices, where there were some."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    shares: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The samples of a request, in the order of its indices.

    Attributes:
        input_tokens: Length of the prompt, counted once however many samples share it.
        output_tokens: Over all samples.
        cached_tokens: Part of the prompt whose keys and values were at hand already.
    """

    samples: tuple[Sample, ...]
    input_tokens: int
    output_tokens: int
    cached_tokens: int


Outcome = Reply | Exception
"""Outcome of a request: one that cannot be served does not affect the others."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request on its way through the engine.

    Attributes:
        request: The request.
        settle: Takes the outcome, exactly once unless the engine itself fails.
        dropped: Whether the outcome is no longer waited for.
    """

    request: Request
    settle: Callable[[Outcome], None]
    dropped: Callable[[], bool] = lambda: False
