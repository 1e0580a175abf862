"""The one place that asks a model anything."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, TypeVar

from cases.texts import plural
from serving.backends.backend import Backend, CallParameters
from serving.journal.journal import Question, text_hash
from serving.protocol.abilities import MAX_REFUSALS, room_after
from serving.protocol.ask import Ask, CallRecord, Failure, Reply, Usage
from serving.protocol.budget import Budget, BudgetHeld, Price, Prices, Spend
from serving.protocol.errors import CallError, ErrorClass, InvalidReply
from serving.protocol.limits import Limits
from serving.protocol.messages import Answer, Message, max_prompt_tokens
from serving.protocol.model_name import Role
from serving.requests.dispatcher import Dispatcher

logger = logging.getLogger("evigraph.serving")

T = TypeVar("T")

_CORRECTION = "Your reply cannot be used: {fault}. Reply again, in full and in the required format only."
_REFUSALS = frozenset({"content_filter", "refusal", "SAFETY", "PROHIBITED_CONTENT"})
_REFUSED = "the model refused to answer"
_NO_TEXT = "(no reply)"
"""Replaces an empty reply in a conversation: some providers refuse empty turns."""

_MAX_QUOTE = 4_000
"""Characters of a faulty reply that the correction turn shows to the model."""

_WIDENED = "widened"
"""Parameter of a call that repeats one whose thinking used up its limit."""

_MAX_CHARACTERS_A_TOKEN = 64
"""More than any tokenizer packs into one token on average: a longer reply exceeds its token limit."""

_BYTES_BESIDE_TEXT = 64
"""An upper bound of what a chat template adds to a turn, in tokens."""


class CallJournal(Protocol):
    """Where calls are kept: a file of this run, or the process that writes it, for a worker on a cluster."""

    async def find_all(self, questions: Sequence[Question]) -> dict[int, Answer]:
        """The stored answers of questions, by sample."""

    async def keep_all(self, answered: Sequence[tuple[Question, Answer]], *, role: str, case_id: str) -> None:
        """Store the answers of one request, all or none; they are committed when this returns."""

    async def reject_all(self, keys: Sequence[str]) -> None:
        """Mark replies that no parser could use."""


class CallPool(Protocol):
    """Takes calls that are answered later; `serving.batches.pool` has it."""

    def is_new(self, key: str) -> bool:
        """Whether a call was answered in this session."""

    def expect(self, case_id: str, requests: int) -> None:
        """So many requests of a case are going to be made at once."""

    def came(self, case_id: str) -> None:
        """One of them has come to its end."""

    def forget(self, case_id: str) -> None:
        """The case is not under way any more."""

    def holds(self, questions: Sequence[Question]) -> bool:
        """Whether one of these calls is away."""

    async def ask(
        self,
        backend: Backend,
        questions: Sequence[Question],
        shaped: Callable[[], CallParameters],
        price: Price | None,
    ) -> NoReturn:
        """Take a request, whose parameters `shaped` gives; whatever becomes of it is raised."""

    async def defer(self, case_id: str) -> NoReturn:
        """Have a case begin again once a batch has ended."""


@dataclass(slots=True)
class ModelClient:
    """Asks models: journal, limits, retries, parsing, correction turn and accounting in one place.

    Attributes:
        backends: The model of each role.
        limits: What the user allows for each endpoint.
        budget: What the run may use.
        prices: By model, empty where the user gave none.
        pool: Takes the calls of models that answer in batches; None where nobody waits for those.
    """

    backends: Mapping[Role, Backend]
    journal: CallJournal
    limits: Limits = field(default_factory=Limits)
    usage: Usage = field(default_factory=Usage)
    budget: Budget = field(default_factory=Budget)
    prices: Prices = field(default_factory=dict)
    pool: CallPool | None = None
    dispatcher: Dispatcher = field(init=False)
    _replays: Counter[str] = field(default_factory=Counter)
    _estimated: set[str] = field(default_factory=set)
    _widened: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """One limit an endpoint, however many roles share it."""
        self.dispatcher = Dispatcher(self.backends.values(), self.limits, self.usage.retries)
        if self.prices:
            self.usage.cost = self.usage.cost or 0.0

    async def room(self, role: Role, messages: Sequence[Message], enough: int) -> int | None:
        """Tokens left in the context window after a conversation; None if that is not known.

        A token is at least a byte long, so a short conversation needs no tokenizer to see that `enough` is
        left; the number is then a lower bound.
        """
        backend = self.backends[role]
        if backend.context_length is None or backend.count_tokens is None:
            return None
        most = sum(len(message.text.encode(errors="replace")) + _BYTES_BESIDE_TEXT for message in messages)
        if backend.context_length - most >= enough:
            return backend.context_length - most
        if not self.dispatcher.is_up(backend):
            return None
        try:
            async with asyncio.timeout(backend.servers[0].time_limit(self.limits.timeout)):
                return backend.context_length - await backend.count_tokens(messages)
        except (CallError, TimeoutError):
            # The request itself will show, with its retries.
            return None

    def forget(self, case_id: str, *, ended: bool = True) -> None:
        """Drop what is known of a case that is not under way any more.

        Args:
            case_id: Which.
            ended: Whether it has; else it begins again once its batches have, and replays the same calls.
        """
        self.dispatcher.forget(case_id)
        if self.pool is not None:
            self.pool.forget(case_id)
        replays = self._replays.pop(case_id, 0)
        self.usage.replayed += replays if ended else 0

    async def aclose(self) -> None:
        """Close all connections. The client cannot be used afterwards."""
        await self.dispatcher.close()
        servers = {id(server): server for backend in self.backends.values() for server in backend.servers}
        for server in servers.values():
            if server.close is not None:
                await server.close()

    async def ask(self, ask: Ask[T]) -> list[Reply[T] | Failure]:
        """One outcome for each sample, in order. A failed sample never takes the others with it.

        Raises:
            CallError: The model's service denies access, which ends the run.
            BudgetSpent: The request might break the budget.
        """
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
        stored = await self.journal.find_all(questions)
        answers = {sample: (answer, True) for sample, answer in stored.items()}
        missing = [question for question in questions if question.sample not in stored]
        groups = _groups(backend, missing)
        if self.pool is not None:
            self.pool.expect(ask.case_id, len(groups))
        failure: CallError | None = None
        for part in await asyncio.gather(
            *(self._request(backend, ask, group) for group in groups), return_exceptions=True
        ):
            if isinstance(part, CallError) and part.error_class != "auth":
                failure = part
            elif isinstance(part, BaseException):
                raise part
            else:
                answers |= {sample: (answer, False) for sample, answer in part.items()}
        return answers, failure

    async def _read(
        self, backend: Backend, ask: Ask[T], question: Question, answer: Answer, replayed: bool
    ) -> Reply[T] | Failure:
        """Parse a reply; if it breaks its format or refuses, quote that to the model and ask once more.

        A reply that was cut off because of its thinking is requested again with a wider limit before.
        """
        calls: tuple[CallRecord, ...] = ()
        rejected: list[str] = []
        if answer.thinking_tokens:
            backend.abilities.thinks = True
        if _was_cut_by_thinking(backend, ask, answer):
            backend.abilities.thinks = True
            calls = (self._record(backend, ask, question, answer, replayed, _cut_fault(answer)),)
            rejected.append(question.key)
            wide = question.with_parameter(_WIDENED, True)
            answers, failure = await self._answer(backend, ask, [wide])
            if not answers:
                return Failure(failure or CallError("internal", "the provider left out a sample"), calls)
            question, (answer, replayed) = wide, answers[question.sample]
            self.usage.widened += not replayed or self._is_first_look(wide.key)
        unwritten = _is_thinking_only(backend, ask, answer)
        fault = _cut_fault(answer) if unwritten else _fault(ask, answer)
        first = self._record(backend, ask, question, answer, replayed, fault)
        calls = (*calls, first)
        if fault is None:
            return _reply(ask, answer, calls)
        rejected.append(question.key)
        if unwritten:
            # There is no reply that a correction turn could quote.
            await self.journal.reject_all(rejected)
            return Failure(CallError("invalid_output", f"{answer.server}: {fault}"), calls)
        turns = (
            Message("assistant", answer.text[:_MAX_QUOTE].strip() or _NO_TEXT),
            Message("user", _CORRECTION.format(fault=fault)),
        )
        corrected = _question(backend, ask, (*question.messages, *turns), question.sample)
        answers, failure = await self._answer(backend, ask, [corrected])
        if not answers:
            return Failure(failure or CallError("internal", "the provider left out a sample"), calls)
        second, second_replayed = answers[question.sample]
        second_fault = _fault(ask, second)
        calls = (*calls, self._record(backend, ask, corrected, second, second_replayed, second_fault))
        if second_fault is None:
            return _reply(ask, second, calls)
        for used, attempt in ((1, second), (0, answer)):
            value = _fall_back(ask, attempt)
            if value is not None:
                last = len(calls) - 2 + used
                marked = tuple(replace(call, incomplete=index == last) for index, call in enumerate(calls))
                return Reply(value, attempt.text, marked, second_fault, attempt.logprobs)
        await self.journal.reject_all([*rejected, corrected.key])
        error_class: ErrorClass = "refusal" if _refused(second) else "invalid_output"
        return Failure(CallError(error_class, f"{second.server}: {second_fault}"), calls)

    def _is_first_look(self, key: str) -> bool:
        """Whether a reply came in a batch of this session; a case reads it again after every batch."""
        if self.pool is None or key in self._widened or not self.pool.is_new(key):
            return False
        self._widened.add(key)
        return True

    async def _request(
        self, backend: Backend, ask: Ask[T], questions: Sequence[Question]
    ) -> dict[int, Answer]:
        """One request for samples of one prompt; each answer is stored as soon as it is there.

        Raises:
            CallError: All attempts are spent.
            BudgetSpent: The request might break the budget.
        """
        parameters = self._parameters(backend, ask, questions)
        price = self.price_of(backend)
        if self.pool is not None:
            if backend.batches is not None or self.pool.holds(questions):

                def shaped() -> CallParameters:
                    asked = self._parameters(backend, ask, questions)
                    call = backend.abilities.shaped(asked, backend.constraints)
                    self._report_not_sent(backend)
                    return call

                await self.pool.ask(backend, questions, shaped, price)
            try:
                answers = await self._send(backend, ask, questions, parameters, price)
            except BudgetHeld:
                await self.pool.defer(ask.case_id)
            except BaseException:
                self.pool.came(ask.case_id)
                raise
            self.pool.came(ask.case_id)
            return answers
        return await self._send(backend, ask, questions, parameters, price)

    def _parameters(
        self, backend: Backend, ask: Ask[T], questions: Sequence[Question], most: int | None = None
    ) -> CallParameters:
        """The request as the recipe wants it, with room for thinking; `most` bounds the limit."""
        effort = backend.effort
        room = backend.room_after(questions[0].messages)
        bounds = [bound for bound in (room, most) if bound is not None]
        wide = _WIDENED in questions[0].parameters
        limit = ask.max_tokens
        if not ask.reply.choices:
            limit = backend.abilities.limit(limit, effort, min(bounds, default=None), wide=wide)
        return CallParameters(
            role=ask.role,
            case_id=ask.case_id,
            samples=tuple(question.sample for question in questions),
            temperature=ask.temperature,
            max_tokens=limit,
            schema=ask.reply.schema,
            schema_name=ask.reply.name,
            seed=ask.seed if backend.takes_seed else None,
            constraint=backend.constraints[0],
            logprobs=(ask.logprobs and backend.logprobs) or bool(ask.reply.choices),
            choices=ask.reply.choices,
            effort=effort,
        )

    async def _send(
        self,
        backend: Backend,
        ask: Ask[T],
        questions: Sequence[Question],
        parameters: CallParameters,
        price: Price | None,
    ) -> dict[int, Answer]:
        messages = questions[0].messages
        async with self.budget.reserve(max_spend(messages, parameters, price), ask.case_id) as reservation:
            received = await self._received(backend, ask, questions, parameters)
            reservation.actual = spend(received, price)
            if not self.limits.keep_thinking:
                received = [replace(answer, thinking="") for answer in received]
            answered = list(zip(questions, received, strict=False))
            # Counted first: a run that ends while the journal commits still finds them there.
            self.count_all([answer for _, answer in answered], price)
            if answered:
                await self.journal.keep_all(answered, role=ask.role, case_id=ask.case_id)
            return {question.sample: answer for question, answer in answered}

    async def _received(
        self, backend: Backend, ask: Ask[T], questions: Sequence[Question], parameters: CallParameters
    ) -> list[Answer]:
        """The answers to a request, sent without what the service refuses until it accepts the rest.

        Raises:
            CallError: It refuses the request for another reason, or all attempts are spent.
        """
        messages, abilities = questions[0].messages, backend.abilities
        for _ in range(MAX_REFUSALS):
            call = abilities.shaped(parameters, backend.constraints)
            self._report_not_sent(backend)
            if "n" in abilities.refused and len(questions) > 1:
                parts = [
                    self._received(backend, ask, [question], replace(parameters, samples=(question.sample,)))
                    for question in questions
                ]
                return [answer for part in await asyncio.gather(*parts) for answer in part]
            try:
                return await self.dispatcher.send(backend, messages, call)
            except CallError as error:
                if error.error_class == "context_length" and call.max_tokens > ask.max_tokens:
                    # The room for thinking exceeds the context window, whose size is not known exactly.
                    parameters = self._parameters(backend, ask, questions, room_after(error) or 0)
                elif not abilities.learn(error, call):
                    raise
                else:
                    parameters = self._parameters(backend, ask, questions)
        raise CallError("internal", f"{backend.name} refuses every form of a request")

    def _report_not_sent(self, backend: Backend) -> None:
        for sentence in backend.abilities.unreported():
            logger.warning("%s: %s", backend.name, sentence)

    def count_all(self, answers: Sequence[Answer], price: Price | None) -> None:
        """Count the answers of one request."""
        for answer in answers:
            self.count(answer, price)
        self._warn_of_estimates(answers)

    def count(self, answer: Answer, price: Price | None) -> None:
        """Count as soon as it is there: the case may end before the reply is stored or read."""
        self.usage.calls += 1
        self.usage.input_tokens += answer.input_tokens
        self.usage.output_tokens += answer.output_tokens
        self.usage.cached_tokens += answer.cached_tokens
        self.usage.estimated += answer.estimated
        self.usage.thinking_tokens += answer.thinking_tokens
        if price is not None and self.usage.cost is not None:
            self.usage.cost += spend([answer], price).cost

    def _warn_of_estimates(self, answers: Sequence[Answer]) -> None:
        for server in {answer.server for answer in answers if answer.estimated} - self._estimated:
            self._estimated.add(server)
            logger.warning(
                "%s reports no usable token counts; they are estimated from the texts, rather too high",
                server,
            )

    def price_of(self, backend: Backend) -> Price | None:
        """The price of a model's calls, which is less in batches; None where the user gave none."""
        return price_of(backend, self.prices)

    def _record(
        self,
        backend: Backend,
        ask: Ask[T],
        question: Question,
        answer: Answer,
        replayed: bool,
        fault: str | None,
    ) -> CallRecord:
        if self.pool is not None:
            # Its replies come through the journal, and are new all the same.
            replayed = replayed and not self.pool.is_new(question.key)
            self._replays[ask.case_id] += replayed
        else:
            self.usage.replayed += replayed
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
            server=answer.server,
            estimated=answer.estimated,
            thinking_tokens=answer.thinking_tokens,
            effort=backend.effort,
            widened=_WIDENED in question.parameters,
        )


def price_of(backend: Backend, prices: Prices) -> Price | None:
    """The price of a model's calls, which is less in batches; None where the user gave none."""
    price = prices.get(backend.name.identity)
    if price is None or backend.batches is None:
        return price
    return price.times(backend.batches.provider.limits.price_share)


def _question(backend: Backend, ask: Ask[T], messages: tuple[Message, ...], sample: int) -> Question:
    parameters: dict[str, Any] = {
        "temperature": ask.temperature,
        "max_tokens": ask.max_tokens,
        "schema": ask.reply.schema,
    }
    if backend.takes_seed:
        parameters["seed"] = ask.seed
    if ask.logprobs:
        parameters["logprobs"] = True
    if ask.reply.choices:
        parameters["choices"] = list(ask.reply.choices)
    if backend.effort is not None:
        parameters["effort"] = backend.effort
    return Question(
        model=backend.name.identity,
        revision=backend.revision,
        messages=messages,
        parameters=parameters,
        sample=sample,
    )


def _reply(ask: Ask[T], answer: Answer, calls: tuple[CallRecord, ...]) -> Reply[T]:
    return Reply(ask.reply.parse(answer.text), answer.text, calls, logprobs=answer.logprobs)


def _refused(answer: Answer) -> bool:
    return answer.finish_reason in _REFUSALS


def _fault(ask: Ask[T], answer: Answer) -> str | None:
    """What is wrong with a reply, in words that can be quoted to the model; None if it is valid."""
    reply = ask.reply
    if _refused(answer):
        return _REFUSED
    if len(answer.text) > _MAX_CHARACTERS_A_TOKEN * ask.max_tokens:
        allowed = plural(ask.max_tokens, "token")
        return f"the reply is {len(answer.text):,} characters long, for {allowed} at most"
    if answer.is_cut_off and (not reply.may_be_cut or answer.is_unwritten) and not reply.choices:
        blank = len(answer.text) - len("".join(answer.text.split()))
        if answer.text and blank > len(answer.text) // 2:
            written = plural(answer.output_tokens, "token")
            return f"the reply ran into white space and was cut off after {written}"
        return _cut_fault(answer)
    try:
        reply.parse(answer.text)
    except InvalidReply as error:
        return str(error)
    return None


def _cut_fault(answer: Answer) -> str:
    fault = f"the reply was cut off after {plural(answer.output_tokens, 'token')}"
    return f"{fault}, {answer.thinking_tokens:,} of them thinking" if answer.thinking_tokens else fault


def _was_cut_by_thinking(backend: Backend, ask: Ask[T], answer: Answer) -> bool:
    """Whether a wider limit may bring the reply, of which nothing or a part was written.

    The text of a model that thinks may be thinking itself: where a chat template opens the tag and the limit
    comes before its end, no tag is in it.
    """
    if ask.reply.choices or not answer.is_cut_off:
        return False
    thought = answer.is_unwritten or answer.thinking_tokens > 0
    return thought or backend.abilities.may_think(backend.effort)


def _is_thinking_only(backend: Backend, ask: Ask[T], answer: Answer) -> bool:
    """Whether even the widest limit brought no reply: thinking without its end may lack all tags."""
    if ask.reply.choices or not answer.is_cut_off:
        return False
    endless = not answer.thinking_tokens and answer.output_tokens > ask.max_tokens
    return answer.is_unwritten or (endless and backend.abilities.may_think(backend.effort))


def _fall_back(ask: Ask[T], answer: Answer) -> T | None:
    fallback = ask.reply.fallback
    too_long = len(answer.text) > _MAX_CHARACTERS_A_TOKEN * ask.max_tokens
    if fallback is None or _refused(answer) or too_long:
        return None
    try:
        return fallback(answer.text)
    except InvalidReply:
        return None


def _groups(backend: Backend, questions: Sequence[Question]) -> list[Sequence[Question]]:
    """Samples of one prompt, by the requests that ask for them."""
    size = len(questions) if backend.many_samples else 1
    if backend.batches is not None:
        size = min(size, backend.batches.max_samples)
    return [questions[start : start + size] for start in range(0, len(questions), size or 1)]


def max_spend(messages: Sequence[Message], call: CallParameters, price: Price | None) -> Spend:
    """The most that a request may use."""
    read, written = max_prompt_tokens(messages), call.max_reply_tokens
    return Spend(read + written, price.cost(read, written) if price else 0.0)


def spend(answers: Sequence[Answer], price: Price | None) -> Spend:
    """What answers have used."""
    read = sum(answer.input_tokens for answer in answers)
    written = sum(answer.output_tokens for answer in answers)
    cached = sum(answer.cached_tokens for answer in answers)
    return Spend(read + written, price.cost(read, written, cached) if price else 0.0)
