"""Probe of a server by small requests: its real abilities, as opposed to silently ignored parameters.

vLLM has silently ignored unknown constraint fields, so a constraint counts only if a reply obeys it against
the prompt. No case text is sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cases.texts import plural
from serving.backends.backend import Backend, Server, exchange
from serving.protocol.abilities import MAX_REFUSALS, Abilities, is_limit_too_low
from serving.protocol.errors import CallError, ModelError
from serving.protocol.messages import Answer, Message
from serving.protocol.reply import JsonSchema, ReplyFormat, free_text
from serving.protocol.request import PROBE, AnyRequest, Constraint, LimitField, Request
from serving.protocol.thinking import Effort
from serving.requests.dispatcher import attempts

TIMEOUT_S = 180.0
"""Time limit of one request: on a CPU, 2,048 tokens of thinking take two minutes."""

_WORDS = ("zebra-17", "zebra-42")
"""Words that no model writes unless it is constrained to them."""

_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": list(_WORDS)}},
    "required": ["word"],
    "additionalProperties": False,
}
_BANANA = (Message("user", 'Reply with this JSON object and nothing else: {"word": "banana"}'),)
_CHATTY = (Message("user", 'Write the words "Here you are:" and then this JSON object: {"word": "banana"}'),)
"""Against JSON mode, in which a reply can only be an object: a reply that is one anyway proves nothing."""
_PLAIN = (Message("user", "Reply with one word: ready"),)
_MAX_TOKENS = 2_048
"""Room for thinking."""
_SHORT = 64
"""Room without thinking: a small model that does not stop writes 2,048 tokens in minutes on a processor."""
_TEMPERATURE = 0.7
"""Not the default of any service, so that a model with a fixed one refuses it."""
_LETTERS = (Message("user", "Write ten random letters."),)
_BUSY = (408, 429)
"""Statuses that do not depend on the request."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings about a model.

    Attributes:
        constraint: How replies are constrained to their schema.
        many_samples: Whether one request brings several samples.
        takes_seed: Whether a seed repeats a reply; None where that was not tried.
        logprobs: Whether log-probabilities come back.
        context_length: In tokens; None if unknown.
        tried: Whether requests were made; otherwise these are the provider's known facts.
        thinks: Whether it is known to think before it writes.
        thinking_tokens: Spent on the reply to the plainest request, None if none was made.
        efforts: The efforts that can be set; empty if that is not known.
        limit_field: The field that holds the limit of a reply.
        max_output: Tokens of the longest reply, thinking included; None where unknown.
        temperature: Whether a temperature is sent.
        counts_tokens: Whether a tokenizer counts prompts exactly.
        scores_choices: Whether it gives the log-probabilities of choices, which is all that recipes need.
    """

    constraint: Constraint
    many_samples: bool
    takes_seed: bool | None
    logprobs: bool
    context_length: int | None
    tried: bool
    thinks: bool = False
    thinking_tokens: int | None = None
    efforts: tuple[Effort, ...] = ()
    limit_field: LimitField = "max_tokens"
    max_output: int | None = None
    temperature: bool = True
    counts_tokens: bool = False
    scores_choices: bool = False

    def as_rows(self) -> list[tuple[str, str]]:
        return [
            ("context", _tokens(self.context_length)),
            ("schema", "prompt and parser only" if self.constraint == "none" else self.constraint),
            ("n", _yes(self.many_samples)),
            ("seed", "not tried" if self.takes_seed is None else _yes(self.takes_seed)),
            ("logprobs", _yes(self.logprobs)),
            ("source", "requests" if self.tried else "provider's facts"),
            *self._thinking_rows(),
        ]

    def as_full_rows(self) -> list[tuple[str, str]]:
        """Names and values of all findings, for a check of a model."""
        thinking = "not seen"
        if self.thinks:
            spent = f", {plural(self.thinking_tokens, 'token')} on one word" if self.thinking_tokens else ""
            thinking = f"yes{spent}"
        return [
            ("context", _tokens(self.context_length)),
            ("longest reply", _tokens(self.max_output)),
            ("limit", self.limit_field),
            ("thinking", thinking),
            ("efforts", ", ".join(self.efforts) or "unknown"),
            ("schema", "prompt and parser only" if self.constraint == "none" else self.constraint),
            ("n", _yes(self.many_samples)),
            ("seed", "not tried" if self.takes_seed is None else _yes(self.takes_seed)),
            ("logprobs", "of choices" if self.scores_choices and not self.logprobs else _yes(self.logprobs)),
            ("temperature", "yes" if self.temperature else "fixed"),
            ("tokenizer", "exact" if self.counts_tokens else "none; lengths are estimated"),
            ("source", "requests" if self.tried else "known facts about the provider"),
        ]

    def _thinking_rows(self) -> list[tuple[str, str]]:
        """Only what sets a model apart from most."""
        rows = []
        if self.thinks:
            spent = "" if not self.thinking_tokens else f", {plural(self.thinking_tokens, 'token')} on a word"
            rows.append(("thinks", f"yes{spent}"))
        if self.limit_field != "max_tokens":
            rows.append(("limit", self.limit_field))
        if self.max_output is not None:
            rows.append(("longest reply", _tokens(self.max_output)))
        if not self.temperature:
            rows.append(("temperature", "fixed"))
        return rows

    def __str__(self) -> str:
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
    """Probe a model's abilities, and adapt its backend.

    A server that does not answer is left out while another does; the model counts it as not reached.

    Args:
        backend: The model.
        takes_seed: The run's recorded value, so its seed is unchanged.
        requests: Whether the server may be asked.
        max_retries: Further attempts of a request that failed in a way that may pass, as of any call.
        limit_s: Seconds for each request, of which there are never more than `TIMEOUT_S`.
        report: Called with a line about an attempt that failed, and about a server that is left out.

    Raises:
        ModelError: No server answers the smallest request, or one refuses it.
    """
    servers = backend.servers
    if backend.probes and requests:
        if backend.describe is not None:
            await backend.describe()
        asked = [
            _Asked(
                server,
                max_retries,
                limit_s,
                report,
                takes_seed is None and backend.may_try_seed,
                backend.abilities,
                backend.constraints,
            )
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
        if backend.unlisted:
            report(backend.unlisted)
        findings = _known(backend)
    # Parameters left out of probe requests are not about the recipe's.
    backend.abilities.not_sent.clear()
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


def _known(backend: Backend, thinking_tokens: int | None = None, *, tried: bool = False) -> Findings:
    abilities = backend.abilities
    return Findings(
        constraint=backend.constraints[0],
        many_samples=backend.many_samples and "n" not in abilities.refused,
        takes_seed=True if backend.takes_seed else None,
        logprobs=backend.logprobs and "logprobs" not in abilities.refused and not abilities.thinks,
        context_length=backend.context_length,
        tried=tried,
        thinks=abilities.thinks,
        thinking_tokens=thinking_tokens,
        efforts=tuple(one for one in abilities.efforts if one not in abilities.refused_efforts),
        limit_field=abilities.limit_field,
        max_output=abilities.max_output,
        temperature="temperature" not in abilities.refused,
        counts_tokens=backend.count_tokens is not None,
        scores_choices=backend.scores_choices,
    )


def _weakest(backend: Backend, found: Sequence[Findings]) -> Findings:
    """Abilities shared by all servers of a model."""
    seeds = [one.takes_seed for one in found]
    thoughts = [one.thinking_tokens for one in found if one.thinking_tokens is not None]
    return replace(
        _known(backend, max(thoughts, default=None), tried=True),
        constraint=max((one.constraint for one in found), key=backend.constraints.index),
        many_samples=all(one.many_samples for one in found),
        takes_seed=None if None in seeds else all(seeds),
        logprobs=all(one.logprobs for one in found),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A server, and how it is asked."""

    server: Server
    max_retries: int
    limit_s: float
    report: Callable[[str], None]
    try_seed: bool
    abilities: Abilities
    constraints: tuple[Constraint, ...]

    async def ask(self, request: AnyRequest, max_retries: int | None = None) -> list[Answer]:
        """The answers to one request, resent without parameters that the service rejects by name.

        Raises:
            _Silent: The server is gone, busy, or does not answer in time.
            ModelError: It refuses the API key.
            CallError: It refuses the request.
        """
        for _ in range(MAX_REFUSALS):
            shaped = self.abilities.shaped(request, self.constraints)
            if self.abilities.thinks:
                shaped = replace(shaped, max_tokens=_MAX_TOKENS)
            if self.abilities.max_output is not None:
                shaped = replace(shaped, max_tokens=min(shaped.max_tokens, self.abilities.max_output))
            if "n" in self.abilities.refused:
                shaped = replace(shaped, samples=shaped.samples[:1])
            may_widen = shaped.max_tokens < _MAX_TOKENS
            try:
                answers = await self._exchange(shaped, max_retries)
            except CallError as error:
                if may_widen and is_limit_too_low(error):
                    self.abilities.thinks = True
                elif not self.abilities.learn(error, shaped):
                    raise
                continue
            if any(answer.thinking_tokens or answer.thinking or answer.is_unwritten for answer in answers):
                self.abilities.thinks = True
            if may_widen and any(answer.is_unwritten for answer in answers):
                continue
            return answers
        raise CallError("internal", "the server refuses every form of a request")

    async def _exchange(self, request: AnyRequest, max_retries: int | None) -> list[Answer]:
        retries = self.max_retries if max_retries is None else max_retries
        try:
            async for attempt in attempts(retries):
                with attempt:
                    number = attempt.retry_state.attempt_number
                    try:
                        limit_s = min(self.limit_s, TIMEOUT_S)
                        return await exchange(self.server, request, limit_s=limit_s, retries=number - 1)
                    except CallError as error:
                        if error.retryable and number <= retries:
                            self.report(f"small request {number} of {retries + 1} failed: {error}")
                        raise
        except CallError as error:
            if error.error_class in ("connection", "timeout", "rate_limit"):
                place = f"server {self.server.endpoint}"
                is_busy = error.status in _BUSY
                raise _Silent(f"{place} does not answer a small request: {error}", is_busy=is_busy) from error
            if error.error_class == "auth":
                raise ModelError(str(error)) from error
            raise
        raise AssertionError("tenacity ends by a result or an exception")

    async def try_(self, request: AnyRequest) -> list[Answer] | None:
        """The answers to a request with optional parts, or None if the server cannot give them.

        A server that fails at such a request and answers the plainest one just after lacks the ability; some
        answer with status 500 to fields that they do not know. One that is busy lacks nothing.

        Raises:
            _Silent: As `ask`.
        """
        try:
            return await self.ask(request, min(1, self.max_retries))
        except CallError:
            return None
        except _Silent as silent:
            if not silent.is_busy:
                await self.ask(_PLAIN_REQUEST)
                return None
        return await self.ask(request)


class _Silent(ModelError):
    """A server does not answer a small request.

    Attributes:
        is_busy: Whether that says nothing about the request.
    """

    def __init__(self, message: str, *, is_busy: bool) -> None:
        super().__init__(message)
        self.is_busy = is_busy


async def _probe(backend: Backend, asked: _Asked) -> Findings:
    """Ask from plain to rich: what works together need not be tried by itself."""
    try:
        plain = await asked.ask(_PLAIN_REQUEST)
    except CallError as error:
        place, model = asked.server.endpoint, str(backend.name)
        if backend.unlisted:
            raise ModelError(f"{backend.unlisted}; it refuses a request to it: {error}") from error
        raise ModelError(f"server {place} refuses the smallest request to {model!r}: {error}") from error
    thought = sum(answer.thinking_tokens for answer in plain)
    if backend.unlisted:
        asked.report(f"{backend.unlisted}; it answers all the same")
    known = _known(backend)
    samples = (0, 1) if known.many_samples else (0,)
    together = _request(_BANANA, samples, constraint=known.constraint, logprobs=known.logprobs)
    answers = await asked.try_(together)
    if answers is None:
        await asked.try_(_request(_BANANA))
        both = await asked.try_(_request(_BANANA, (0, 1))) if known.many_samples else None
        likely = await asked.try_(_request(_BANANA, logprobs=True)) if known.logprobs else None
        many, logprobs = len(both or ()) == 2, bool(likely and likely[0].logprobs)
        constraint = await _best_constraint(backend, asked, backend.constraints)
    else:
        many, logprobs = len(answers) == 2, bool(answers and answers[0].logprobs)
        constraint = asked.abilities.shaped(together, backend.constraints).constraint
        if constraint == "json_object" or not _obeys(answers, constraint):
            at = backend.constraints.index(constraint)
            below = backend.constraints[at if constraint == "json_object" else at + 1 :]
            constraint = await _best_constraint(backend, asked, below)
    seed = await _seed_repeats(asked) if asked.try_seed else None
    return replace(
        _known(backend, thought, tried=True),
        constraint=constraint,
        many_samples=many and "n" not in asked.abilities.refused,
        takes_seed=seed,
        logprobs=logprobs and not asked.abilities.thinks,
    )


async def _best_constraint(backend: Backend, asked: _Asked, constraints: Sequence[Constraint]) -> Constraint:
    for constraint in constraints:
        if constraint == "none":
            break
        request = _request(_CHATTY if constraint == "json_object" else _BANANA, constraint=constraint)
        answers = await asked.try_(request)
        tried = asked.abilities.shaped(request, backend.constraints).constraint == constraint
        if tried and answers is not None and _obeys(answers, constraint):
            return constraint
    return backend.constraints[-1]


def _obeys(answers: Sequence[Answer], constraint: Constraint) -> bool:
    """Whether the replies follow the schema although the prompt asks for something else."""
    if constraint == "none":
        return True
    for answer in answers:
        if answer.is_unwritten:
            # Thinking has used up the limit; that proves nothing about the constraint.
            continue
        if constraint == "json_object" and answer.finish_reason == "length" and answer.text.startswith("{"):
            # Any object is allowed, also one that is longer than the limit.
            continue
        try:
            reply = json.loads(answer.text)
        except (ValueError, RecursionError):
            return False
        if not isinstance(reply, dict):
            return False
        if constraint != "json_object" and reply.get("word") not in _WORDS:
            return False
    return True


async def _seed_repeats(asked: _Asked) -> bool:
    replies = [await asked.try_(_request(_LETTERS, schema=None, seed=17)) for _ in range(2)]
    first, second = replies
    # Two empty replies of a model that thinks prove nothing.
    return bool(first and second and first[0].text and first[0].text == second[0].text)


def _request(
    messages: tuple[Message, ...],
    samples: tuple[int, ...] = (0,),
    *,
    constraint: Constraint = "none",
    logprobs: bool = False,
    schema: JsonSchema | None = _SCHEMA,
    seed: int | None = None,
) -> AnyRequest:
    reply = ReplyFormat("word", schema, free_text)
    return Request(
        PROBE,
        "",
        messages,
        reply,
        samples,
        _TEMPERATURE,
        _SHORT,
        seed,
        logprobs,
        constraint=constraint,
    )


_PLAIN_REQUEST = replace(_request(_PLAIN, schema=None), temperature=None, max_tokens=_MAX_TOKENS)


def _tokens(number: int | None) -> str:
    return "unknown" if number is None else plural(number, "token")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
