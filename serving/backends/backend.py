"""Interface of providers: list and connect models, and send requests to a connected one."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from serving.policy.traffic import Traffic, count, size
from serving.protocol.abilities import Abilities, is_limit_too_low
from serving.protocol.batch_provider import BatchModel
from serving.protocol.errors import CallError, classify
from serving.protocol.messages import Answer, Message, max_prompt_tokens, with_counts
from serving.protocol.model_name import ModelName
from serving.protocol.request import AnyRequest, Constraint
from serving.protocol.thinking import Effort

Arguments = Callable[[AnyRequest], dict[str, Any]]
"""Keyword arguments of a request to a provider's LangChain class."""

Complete = Callable[[AnyRequest], Awaitable[list[Answer]]]
"""One request; an answer for each sample, in order. May raise anything that `errors.classify` reads."""


@dataclass(frozen=True, slots=True)
class Server:
    """One place where a model answers.

    Attributes:
        endpoint: Where requests go; all roles and models that share it share one limit.
        complete: Asks it.
        is_up: A cheap check whether it can answer, None where there is none.
        close: Closes connections, None where there are none.
        reached: Whether it answered at the start; the others are asked once they come up.
        key: Environment variable of its API key, empty where it has none.
        connects: Whether texts go to a host; a script's do not.
        in_process: Whether it is part of this process. It then works as long as the process does: what
            takes long is its own queue, so no time limit applies, and it is never away.
    """

    endpoint: str
    complete: Complete
    is_up: Callable[[], Awaitable[bool]] | None = None
    close: Callable[[], Awaitable[None]] | None = None
    reached: bool = True
    key: str = ""
    connects: bool = True
    in_process: bool = False

    def time_limit(self, seconds: float) -> float | None:
        """The limit of one exchange, None for no limit."""
        return None if self.in_process else seconds


@dataclass(frozen=True, slots=True)
class Backend:
    """A model with what sets its provider apart.

    Attributes:
        servers: Its servers at the start; several serve the same weights.
        revision: Known revision of the weights, for the journal and the run manifest.
        constraints: How replies can be constrained to a schema, the best first; requests use the first.
        many_samples: Whether one request can bring several samples (`n`).
        takes_seed: Whether a seed is sent; it shapes the reply and is therefore part of a call's key.
        may_try_seed: Whether the probe may find out; a seed ends vLLM's CPU engine.
        logprobs: Whether log-probabilities of the reply's tokens can be had.
        scores_choices: Whether it gives the log-probabilities of choices, though not those of every token.
        choices_at_once: Concurrent choice requests, in addition to the others; 0 if they share the slots.
        start_connections: Requests under way at once at the start, on each server.
        max_connections: Their limit.
        context_length: In tokens; None if unknown.
        count_tokens: Exact length of a conversation in tokens; None without a tokenizer.
        probes: Whether a probe at the start can add to the known facts.
        unlisted: That a server does not list the model, as the beginning of a message; empty if it does.
        abilities: What its requests may contain; grows while the service refuses parts of them.
        describe: Adds the service's information on the model to `abilities`; None without an endpoint for it.
            Never raises.
        effort: How much it is to think in its role; None leaves that to the provider.
        batches: Takes its calls in batches; None if each is a separate request.
    """

    name: ModelName
    servers: tuple[Server, ...]
    revision: str = ""
    constraints: tuple[Constraint, ...] = ("none",)
    many_samples: bool = False
    takes_seed: bool = False
    may_try_seed: bool = False
    logprobs: bool = False
    scores_choices: bool = False
    choices_at_once: int = 0
    start_connections: int = 8
    max_connections: int = 64
    context_length: int | None = None
    count_tokens: Callable[[Sequence[Message]], Awaitable[int]] | None = None
    probes: bool = False
    unlisted: str = ""
    abilities: Abilities = field(default_factory=Abilities)
    describe: Callable[[], Awaitable[None]] | None = None
    effort: Effort | None = None
    batches: BatchModel | None = None

    @property
    def weighs_choices(self) -> bool:
        """Whether a request for choices returns their log-probabilities."""
        if self.abilities.may_think(self.effort) or "logprobs" in self.abilities.refused:
            return False
        return self.logprobs or self.scores_choices

    def at_effort(self, effort: Effort | None) -> Backend:
        """The same model, set to an effort; itself if that is its effort already."""
        return self if effort == self.effort else replace(self, effort=effort)

    def room_after(self, messages: Sequence[Message]) -> int | None:
        """Tokens left in the context window after a conversation, by an upper estimate of its length."""
        return None if self.context_length is None else self.context_length - max_prompt_tokens(messages)


class Entry(NamedTuple):
    """A way to name a model, as `evigraph models list` shows it."""

    model: str
    state: str
    description: str


@dataclass(frozen=True, slots=True)
class Provider:
    """Provider of a row of `model_name.PROVIDERS`.

    Attributes:
        connect: Makes a model ready; raises a ModelError with fault and remedy.
        catalogue: The ways to name its models. Looks at this machine only.
        services: Addresses that are asked where a model's name has none; none for a model in this process.
    """

    connect: Callable[[ModelName], Backend]
    catalogue: Callable[[], list[Entry]]
    services: Callable[[], tuple[str, ...]] = tuple


def installed(module: str, requirement: str) -> str:
    """The state of what needs a module: "ready", or how to install it."""
    found = importlib.util.find_spec(module) is not None
    return "ready" if found else f"not installed: pip install {requirement}"


async def exchange(server: Server, request: AnyRequest, *, limit_s: float, retries: int) -> list[Answer]:
    """Ask for all samples in one request.

    Args:
        server: The one to ask.
        request: As it is sent.
        limit_s: Seconds for the whole exchange, even where a server sends a byte now and then; a model in
            this process has no limit.
        retries: How many attempts went before this one.

    Raises:
        CallError: The provider's failure, whatever its exception was.
    """
    started = time.perf_counter()
    deadline = asyncio.timeout(server.time_limit(limit_s))
    answers: list[Answer] = []
    try:
        async with deadline:
            answers = await server.complete(request)
    except Exception as error:
        if deadline.expired():
            raise CallError("timeout", f"{server.endpoint}: no complete reply in {limit_s:g} s") from error
        # Every provider has its own exceptions; `classify` knows them all and keeps the cause.
        failure = classify(error)
        if not is_limit_too_low(failure):
            if failure.error_class == "auth" and failure.status == 403 and not request.is_plain:
                failure = failure.of_request()
            raise failure.at(server.endpoint, server.key) from error
        answers = [Answer("", "length", 0, 0) for _ in request.samples]
    finally:
        if server.connects and not server.in_process:
            # A request that failed has been sent all the same.
            sent, received = size(one.text for one in request.messages), size(one.text for one in answers)
            count(server.endpoint, Traffic(1, len(answers), sent, received))
    seconds = time.perf_counter() - started
    # What runs in this process counts for itself.
    counted = answers if server.in_process else with_counts(answers, request.messages, request.max_tokens)
    return [
        # A model can end in half a surrogate pair, which cannot be stored as UTF-8.
        replace(
            answer,
            text=answer.text.encode(errors="replace").decode(),
            seconds=seconds,
            retries=retries,
            server=server.endpoint,
        )
        for answer in counted
    ]
