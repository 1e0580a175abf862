"""A few tiny requests at the start: what a server really does, as opposed to what it silently accepts.

vLLM has silently ignored unknown constraint fields, so a constraint counts only if a reply obeys it against
the prompt. No case text is sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from serving.backends.backend import PROBE, Backend, CallParameters, Constraint, Server, exchange
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
        length = "unknown" if self.context_length is None else f"{self.context_length:,} tokens"
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
    backend: Backend, *, takes_seed: bool | None = None, requests: bool = True
) -> tuple[Backend, Findings]:
    """Find out what a model can do, and use it accordingly.

    Args:
        backend: The model.
        takes_seed: What a run has recorded: its seed stays as it was.
        requests: Whether the server may be asked.

    Raises:
        ModelError: The server lists the model and cannot answer the smallest request.
    """
    servers = [server for server in backend.servers if server.reached]
    if backend.probes and requests:
        found = await asyncio.gather(
            *(_probe(backend, server, takes_seed is None and backend.may_try_seed) for server in servers)
        )
        findings = _weakest(backend, found)
    else:
        findings = _known(backend)
    used = bool(findings.takes_seed) if takes_seed is None else takes_seed
    ladder = backend.constraints[backend.constraints.index(findings.constraint) :]
    able = replace(
        backend,
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


async def _probe(backend: Backend, server: Server, try_seed: bool) -> Findings:
    known = _known(backend)
    samples = (0, 1) if backend.many_samples else (0,)
    together = _call(samples, constraint=known.constraint, logprobs=known.logprobs)
    answers = await _try(server, _BANANA, together)
    if answers is None:
        # Something of it is refused; find out what by asking for one thing at a time.
        try:
            await exchange(server, _BANANA, _call((0,)), limit_s=TIMEOUT_S, retries=0)
        except CallError as error:
            model = str(backend.name)
            raise ModelError(
                f"server {server.endpoint} refuses the smallest request to {model!r}: {error}"
            ) from error
        both = await _try(server, _BANANA, _call((0, 1))) if backend.many_samples else None
        likely = await _try(server, _BANANA, _call((0,), logprobs=True)) if backend.logprobs else None
        many, logprobs = len(both or ()) == 2, bool(likely and likely[0].logprobs)
        constraint = await _best_constraint(backend, server, backend.constraints)
    else:
        many, logprobs = len(answers) == 2, bool(answers and answers[0].logprobs)
        constraint = known.constraint
        if not _obeys(answers, constraint):
            constraint = await _best_constraint(backend, server, backend.constraints[1:])
    seed = await _seed_repeats(server) if try_seed else None
    return Findings(constraint, many, seed, logprobs, backend.context_length, tried=True)


async def _best_constraint(backend: Backend, server: Server, constraints: Sequence[Constraint]) -> Constraint:
    for constraint in constraints:
        answers = await _try(server, _BANANA, _call((0,), constraint=constraint))
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


async def _seed_repeats(server: Server) -> bool:
    replies = [await _try(server, _LETTERS, _call((0,), schema=False, seed=17)) for _ in range(2)]
    first, second = replies
    # A reasoning model leaves two empty replies, which prove nothing.
    return bool(first and second and first[0].text and first[0].text == second[0].text)


async def _try(server: Server, messages: Sequence[Message], call: CallParameters) -> list[Answer] | None:
    """The answers, or None where the request was refused.

    Raises:
        ModelError: The server is gone, or does not answer in time.
    """
    try:
        return await exchange(server, messages, call, limit_s=TIMEOUT_S, retries=0)
    except CallError as error:
        if error.error_class in ("connection", "timeout", "rate_limit"):
            raise ModelError(f"server {server.endpoint} does not answer a small request: {error}") from error
        return None


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
