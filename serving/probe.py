"""A few tiny requests at the start: what a server really does, as opposed to what it silently accepts.

vLLM has silently ignored unknown constraint fields, so a constraint counts only if a reply obeys it against
the prompt. No case text is sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cases.texts import plural
from serving.backends.backend import PROBE, Backend, CallParameters, Constraint, Server, exchange
from serving.dispatcher import attempts
from serving.errors import CallError, ModelError
from serving.messages import Answer, Message

TIMEOUT_S = 60.0

_WORDS = ("zebra-17", "zebra-42")
"""Words that no model writes unless it is constrained to them."""

_SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": list(_WORDS)}},
    "required": ["word"],
    "additionalProperties": False,
}
_BANANA = (Message("user", 'Reply with this JSON object and nothing else: {"word": "banana"}'),)
_LETTERS = (Message("user", "Write ten random letters."),)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found out about a model.

    Attributes:
        constraint: How replies are constrained to their schema.
        many_samples: Whether one request brings several samples.
        takes_seed: Whether a seed repeats a reply; None where that was not tried.
        logprobs: Whether log-probabilities come back.
        context_length: In tokens, None where unknown.
        tried: Whether requests were made; otherwise this is what is known of the provider.
    """

    constraint: Constraint
    many_samples: bool
    takes_seed: bool | None
    logprobs: bool
    context_length: int | None
    tried: bool

    def as_rows(self) -> list[tuple[str, str]]:
        """Names and values, for people."""
        length = "unknown" if self.context_length is None else plural(self.context_length, "token")
        return [
            ("context", length),
            ("schema", "prompt and parser only" if self.constraint == "none" else self.constraint),
            ("n", _yes(self.many_samples)),
            ("seed", "not tried" if self.takes_seed is None else _yes(self.takes_seed)),
            ("logprobs", _yes(self.logprobs)),
            ("source", "requests" if self.tried else "what is known of the provider"),
        ]

    def __str__(self) -> str:
        """In one line."""
        return ", ".join(f"{name} {value}" for name, value in self.as_rows())


async def probe(
    backend: Backend,
    *,
    takes_seed: bool | None = None,
    requests: bool = True,
    max_retries: int = 0,
    limit_s: float = TIMEOUT_S,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[Backend, Findings]:
    """Find out what a model can do, and use it accordingly.

    A server that gives no answer is left out while another does; the model then counts it among those that
    have not been reached.

    Args:
        backend: The model.
        takes_seed: What a run has recorded: its seed stays as it was.
        requests: Whether the server may be asked.
        max_retries: Further attempts of a request that failed in a way that may pass, as of any call.
        limit_s: Seconds for each request, of which there are never more than `TIMEOUT_S`.
        report: Called with a line about an attempt that failed, and about a server that is left out.

    Raises:
        ModelError: No server answers the smallest request, or one refuses it.
    """
    servers = backend.servers
    if backend.probes and requests:
        asked = [
            _Asked(server, max_retries, limit_s, report, takes_seed is None and backend.may_try_seed)
            for server in servers
            if server.reached
        ]
        found = await asyncio.gather(*(_probe(backend, one) for one in asked), return_exceptions=True)
        silent = {}
        for one, outcome in zip(asked, found, strict=True):
            if isinstance(outcome, _Silent):
                silent[one.server.endpoint] = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
        if len(silent) == len(asked):
            raise next(iter(silent.values()))
        for outcome in silent.values():
            report(f"{outcome}; it is used once it does")
        servers = tuple(replace(one, reached=one.reached and one.endpoint not in silent) for one in servers)
        findings = _weakest(backend, [one for one in found if isinstance(one, Findings)])
    else:
        findings = _known(backend)
    used = bool(findings.takes_seed) if takes_seed is None else takes_seed
    ladder = backend.constraints[backend.constraints.index(findings.constraint) :]
    able = replace(
        backend,
        servers=servers,
        constraints=ladder,
        many_samples=findings.many_samples,
        takes_seed=used,
        logprobs=findings.logprobs,
    )
    return able, findings


def _known(backend: Backend) -> Findings:
    return Findings(
        constraint=backend.constraints[0],
        many_samples=backend.many_samples,
        takes_seed=True if backend.takes_seed else None,
        logprobs=backend.logprobs,
        context_length=backend.context_length,
        tried=False,
    )


def _weakest(backend: Backend, found: Sequence[Findings]) -> Findings:
    """What all servers of a model can do."""
    seeds = [one.takes_seed for one in found]
    return Findings(
        constraint=max((one.constraint for one in found), key=backend.constraints.index),
        many_samples=all(one.many_samples for one in found),
        takes_seed=None if None in seeds else all(seeds),
        logprobs=all(one.logprobs for one in found),
        context_length=backend.context_length,
        tried=True,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A server, and how it is asked."""

    server: Server
    max_retries: int
    limit_s: float
    report: Callable[[str], None]
    try_seed: bool

    async def ask(self, messages: Sequence[Message], call: CallParameters) -> list[Answer]:
        """The answers to one request.

        Raises:
            _Silent: The server is gone, busy, or does not answer in time.
            CallError: It refuses the request.
        """
        place = f"server {self.server.endpoint}"
        try:
            async for attempt in attempts(self.max_retries):
                with attempt:
                    number = attempt.retry_state.attempt_number
                    try:
                        limit_s = min(self.limit_s, TIMEOUT_S)
                        return await exchange(
                            self.server, messages, call, limit_s=limit_s, retries=number - 1
                        )
                    except CallError as error:
                        if error.retryable and number <= self.max_retries:
                            self.report(f"small request {number} of {self.max_retries + 1} failed: {error}")
                        raise
        except CallError as error:
            if error.error_class in ("connection", "timeout", "rate_limit"):
                raise _Silent(f"{place} does not answer a small request: {error}") from error
            raise
        raise AssertionError("tenacity ends by a result or an exception")

    async def try_(self, messages: Sequence[Message], call: CallParameters) -> list[Answer] | None:
        """The answers, or None where the request was refused.

        Raises:
            _Silent: As `ask`.
        """
        try:
            return await self.ask(messages, call)
        except CallError:
            return None


class _Silent(ModelError):
    """A server gives no answer to a small request."""


async def _probe(backend: Backend, asked: _Asked) -> Findings:
    known = _known(backend)
    samples = (0, 1) if backend.many_samples else (0,)
    together = _call(samples, constraint=known.constraint, logprobs=known.logprobs)
    answers = await asked.try_(_BANANA, together)
    if answers is None:
        # Something of it is refused; find out what by asking for one thing at a time.
        try:
            await asked.ask(_BANANA, _call((0,)))
        except CallError as error:
            place, model = asked.server.endpoint, str(backend.name)
            raise ModelError(f"server {place} refuses the smallest request to {model!r}: {error}") from error
        both = await asked.try_(_BANANA, _call((0, 1))) if backend.many_samples else None
        likely = await asked.try_(_BANANA, _call((0,), logprobs=True)) if backend.logprobs else None
        many, logprobs = len(both or ()) == 2, bool(likely and likely[0].logprobs)
        constraint = await _best_constraint(backend, asked, backend.constraints)
    else:
        many, logprobs = len(answers) == 2, bool(answers and answers[0].logprobs)
        constraint = known.constraint
        if not _obeys(answers, constraint):
            constraint = await _best_constraint(backend, asked, backend.constraints[1:])
    seed = await _seed_repeats(asked) if asked.try_seed else None
    return Findings(constraint, many, seed, logprobs, backend.context_length, tried=True)


async def _best_constraint(backend: Backend, asked: _Asked, constraints: Sequence[Constraint]) -> Constraint:
    for constraint in constraints:
        answers = await asked.try_(_BANANA, _call((0,), constraint=constraint))
        if answers is not None and _obeys(answers, constraint):
            return constraint
    return backend.constraints[-1]


def _obeys(answers: Sequence[Answer], constraint: Constraint) -> bool:
    """Whether the replies follow the schema although the prompt asks for something else."""
    if constraint == "none":
        return True
    for answer in answers:
        if answer.finish_reason == "length" and not answer.text.strip():
            # A reasoning model has used up its tokens; that proves nothing about the constraint.
            continue
        try:
            word = json.loads(answer.text)["word"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        if constraint != "json_object" and word not in _WORDS:
            return False
    return True


async def _seed_repeats(asked: _Asked) -> bool:
    replies = [await asked.try_(_LETTERS, _call((0,), schema=False, seed=17)) for _ in range(2)]
    first, second = replies
    # A reasoning model leaves two empty replies, which prove nothing.
    return bool(first and second and first[0].text and first[0].text == second[0].text)


def _call(
    samples: tuple[int, ...],
    *,
    constraint: Constraint = "none",
    logprobs: bool = False,
    schema: bool = True,
    seed: int | None = None,
) -> CallParameters:
    return CallParameters(
        role=PROBE,
        case_id="",
        samples=samples,
        temperature=1.0,
        max_tokens=24,
        schema=_SCHEMA if schema else None,
        schema_name="word",
        seed=seed,
        constraint=constraint,
        logprobs=logprobs,
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"
