"""What the client needs to know of a model behind any provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from serving.journal import Answer
from serving.messages import Message
from serving.model_name import ModelName
from serving.reply import JsonSchema

Constraint = Literal["grammar", "json_schema", "tool", "json_object", "none"]
"""How a provider is held to a reply's schema, the strongest first; `none` leaves it to prompt and parser."""


@dataclass(frozen=True, slots=True)
class CallParameters:
    """One request: `samples` holds the index of each sample that is asked for."""

    role: str
    case_id: str
    samples: tuple[int, ...]
    temperature: float
    max_tokens: int
    schema: JsonSchema | None
    schema_name: str
    seed: int | None = None
    constraint: Constraint = "none"
    logprobs: bool = False


Complete = Callable[[Sequence[Message], CallParameters], Awaitable[list[Answer]]]
"""One request; an answer for each sample, in order. May raise anything that `errors.classify` reads."""


@dataclass(frozen=True, slots=True)
class Server:
    """One place where a model answers.

    Attributes:
        endpoint: Where requests go; all roles and models that share it share one limit.
        complete: Asks it.
        is_up: A cheap look whether it can answer, None where there is none.
        close: Gives connections back, None where there are none.
        reached: Whether it answered at the start; the others are asked once they come up.
        start: Makes it ready, None where it needs no time; without it the first request does.
    """

    endpoint: str
    complete: Complete
    is_up: Callable[[], Awaitable[bool]] | None = None
    close: Callable[[], Awaitable[None]] | None = None
    reached: bool = True
    start: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Backend:
    """A model with what sets its provider apart.

    Attributes:
        servers: Where it answers; several serve the same weights.
        revision: What is known of the weights, for the journal and the run manifest.
        constraints: How replies can be held to a schema, the best first; requests use the first one.
        many_samples: Whether one request can bring several samples (`n`).
        takes_seed: Whether a seed is sent; it then shapes the reply, and so belongs to its identity.
        may_try_seed: Whether the probe may find out; a seed ends vLLM's CPU engine.
        logprobs: Whether log-probabilities of the reply's tokens can be had.
        start_connections: Requests under way at once at the start, on each server.
        max_connections: The most that they grow to.
        context_length: In tokens, None where the provider does not say.
        count_tokens: Exact length of a conversation in tokens, None where nobody can say.
        probes: Whether small requests at the start tell more than is known of the provider.
    """

    name: ModelName
    servers: tuple[Server, ...]
    revision: str = ""
    constraints: tuple[Constraint, ...] = ("none",)
    many_samples: bool = False
    takes_seed: bool = False
    may_try_seed: bool = False
    logprobs: bool = False
    start_connections: int = 8
    max_connections: int = 64
    context_length: int | None = None
    count_tokens: Callable[[Sequence[Message]], Awaitable[int]] | None = None
    probes: bool = False
