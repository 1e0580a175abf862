"""The one place that asks a model anything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential_jitter

from serving.ask import Ask, CallRecord, Failure, Reply, Usage
from serving.backends.backend import Backend, CallParameters
from serving.errors import RETRYABLE, CallError, InvalidReply
from serving.exchange import exchange
from serving.journal import Answer, Journal, Message, Question, text_hash
from serving.model_name import Role
from serving.reply import ReplyFormat

T = TypeVar("T")

DEFAULT_MAX_RETRIES = 4
LONGEST_WAIT_S = 300.0
"""A server that asks for a longer pause is asked again after this one."""

_BACKOFF = wait_exponential_jitter(initial=1, max=60)
_CORRECTION = "Your reply cannot be used: {fault}. Reply again, in full and in the required format only."
_REFUSALS = frozenset({"content_filter", "refusal", "SAFETY", "PROHIBITED_CONTENT"})


@dataclass(slots=True)
class _Endpoint:
    """Shared by all roles, cases and votes that go to one address."""

    slots: asyncio.Semaphore
    down: bool = False


@dataclass(slots=True)
class ModelClient:
    """Asks models: journal, limit, retries, parsing, correction turn and accounting in one place.

    Attributes:
        backends: The model of each role.
        max_retries: Further attempts of a failed request; 0 means none.
    """

    backends: Mapping[Role, Backend]
    journal: Journal
    max_retries: int = DEFAULT_MAX_RETRIES
    usage: Usage = field(default_factory=Usage)
    _endpoints: dict[str, _Endpoint] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """One limit an endpoint, however many roles share it."""
        for backend in self.backends.values():
            self._endpoints.setdefault(
                backend.endpoint, _Endpoint(asyncio.Semaphore(backend.max_connections))
            )

    async def room(self, role: Role, messages: Sequence[Message]) -> int | None:
        """Tokens left in the context window after a conversation; None if that is not known."""
        backend = self.backends[role]
        if backend.context_length is None or backend.count_tokens is None:
            return None
        try:
            return backend.context_length - await backend.count_tokens(messages)
        except CallError:
            # The request itself will tell, with its retries.
            return None

    async def aclose(self) -> None:
        """Give all connections back. The client is of no use afterwards."""
        for close in {backend.close for backend in self.backends.values() if backend.close is not None}:
            await close()

    async def ask(self, ask: Ask[T]) -> list[Reply[T] | Failure]:
        """One outcome for each sample, in order. A failed sample never takes the others with it."""
        backend = self.backends[ask.role]
        questions = [_question(backend, ask, ask.messages, sample) for sample in ask.samples]
        answers, failure = await self._answer(backend, ask, questions)

        async def outcome(question: Question) -> Reply[T] | Failure:
            if question.sample in answers:
                answer, replayed = answers[question.sample]
                return await self._read(backend, ask, question, answer, replayed)
            return Failure(failure or CallError("internal", "the provider left out a sample"))

        return list(await asyncio.gather(*(outcome(question) for question in questions)))

    async def _answer(
        self, backend: Backend, ask: Ask[T], questions: Sequence[Question]
    ) -> tuple[dict[int, tuple[Answer, bool]], CallError | None]:
        """Answers by sample, each with whether it was replayed, and why samples are missing if any are."""
        answers: dict[int, tuple[Answer, bool]] = {}
        missing = []
        for question in questions:
            stored = self.journal.find(question)
            if stored is None:
                missing.append(question)
            else:
                answers[question.sample] = (stored, True)
        groups = [missing] if backend.many_samples else [[question] for question in missing]
        failure: CallError | None = None
        for part in await asyncio.gather(
            *(self._request(backend, ask, group) for group in groups if group), return_exceptions=True
        ):
            if isinstance(part, CallError):
                failure = part
            elif isinstance(part, BaseException):
                raise part
            else:
                answers |= {sample: (answer, False) for sample, answer in part.items()}
        return answers, failure

    async def _read(
        self, backend: Backend, ask: Ask[T], question: Question, answer: Answer, replayed: bool
    ) -> Reply[T] | Failure:
        """Parse a reply; if it breaks its format, quote the fault to the model and ask once more."""
        if answer.finish_reason in _REFUSALS:
            self.journal.reject([question.key])
            record = self._record(backend, ask, question, answer, replayed, "refused")
            return Failure(CallError("refusal", "the model refused to answer"), (record,))
        fault = _fault(ask.reply, answer)
        first = self._record(backend, ask, question, answer, replayed, fault)
        if fault is None:
            return Reply(ask.reply.parse(answer.text), answer.text, (first,))
        turns = (Message("assistant", answer.text), Message("user", _CORRECTION.format(fault=fault)))
        corrected = _question(backend, ask, (*question.messages, *turns), question.sample)
        answers, failure = await self._answer(backend, ask, [corrected])
        if not answers:
            return Failure(failure or CallError("internal", "the provider left out a sample"), (first,))
        second, second_replayed = answers[question.sample]
        second_fault = _fault(ask.reply, second)
        calls = (first, self._record(backend, ask, corrected, second, second_replayed, second_fault))
        if second_fault is None:
            return Reply(ask.reply.parse(second.text), second.text, calls)
        for text in (second.text, answer.text):
            rescued = _rescue(ask.reply, text)
            if rescued is not None:
                return Reply(rescued, text, calls, rescued=second_fault)
        self.journal.reject([question.key, corrected.key])
        return Failure(CallError("invalid_output", second_fault), calls)

    async def _request(
        self, backend: Backend, ask: Ask[T], questions: Sequence[Question]
    ) -> dict[int, Answer]:
        """One request for samples of one prompt; each answer is stored as soon as it is there.

        Raises:
            CallError: All attempts are spent.
        """
        endpoint = self._endpoints[backend.endpoint]
        parameters = CallParameters(
            role=ask.role,
            case_id=ask.case_id,
            samples=tuple(question.sample for question in questions),
            temperature=ask.temperature,
            max_tokens=ask.max_tokens,
            seed=ask.seed,
            schema=ask.reply.schema,
            schema_name=ask.reply.name,
        )
        # Once a call has used up its retries, the next ones get a single attempt until one
        # succeeds, so that a dead server ends a batch in seconds rather than hours.
        attempts = 1 if endpoint.down else self.max_retries + 1
        received: list[Answer] = []
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(attempts),
                wait=_wait,
                retry=retry_if_exception(_may_be_cured),
                reraise=True,
            ):
                with attempt:
                    async with endpoint.slots:
                        retries = attempt.retry_state.attempt_number - 1
                        received = await exchange(backend, questions[0].messages, parameters, retries)
        except CallError as error:
            endpoint.down = error.error_class == "connection"
            raise
        endpoint.down = False
        answers: dict[int, Answer] = {}
        for question, answer in zip(questions, received, strict=False):
            self.journal.store(question, answer, role=ask.role, case_id=ask.case_id)
            answers[question.sample] = answer
        return answers

    def _record(
        self,
        backend: Backend,
        ask: Ask[T],
        question: Question,
        answer: Answer,
        replayed: bool,
        fault: str | None,
    ) -> CallRecord:
        if replayed:
            self.usage.replayed += 1
        else:
            self.usage.calls += 1
            self.usage.input_tokens += answer.input_tokens
            self.usage.output_tokens += answer.output_tokens
        return CallRecord(
            key=question.key,
            role=ask.role,
            sample=question.sample,
            model=str(backend.name),
            prompt=tuple(text_hash(message.text) for message in question.messages),
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cached_tokens=answer.cached_tokens,
            seconds=round(answer.seconds, 3),
            retries=answer.retries,
            replayed=replayed,
            fault=fault,
        )


def _question(backend: Backend, ask: Ask[T], messages: tuple[Message, ...], sample: int) -> Question:
    parameters = {
        "temperature": ask.temperature,
        "max_tokens": ask.max_tokens,
        "schema": ask.reply.schema,
    }
    if backend.takes_seed:
        parameters["seed"] = ask.seed
    return Question(
        model=f"{backend.name.provider}:{backend.name.name}",
        revision=backend.revision,
        messages=messages,
        parameters=parameters,
        sample=sample,
    )


def _fault(reply: ReplyFormat[T], answer: Answer) -> str | None:
    if answer.finish_reason == "length" and not reply.may_be_cut:
        return f"the reply was cut off after {answer.output_tokens} tokens"
    try:
        reply.parse(answer.text)
    except InvalidReply as error:
        return str(error)
    return None


def _rescue(reply: ReplyFormat[T], text: str) -> T | None:
    if reply.rescue is None:
        return None
    try:
        return reply.rescue(text)
    except InvalidReply:
        return None


def _may_be_cured(error: BaseException) -> bool:
    return isinstance(error, CallError) and error.error_class in RETRYABLE


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, CallError) and error.retry_after is not None:
        return min(error.retry_after, LONGEST_WAIT_S)
    return float(_BACKOFF(state))
