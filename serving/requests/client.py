"""The one place that asks a model anything."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, Protocol, TypeVar

from cases.texts import plural
from serving.backends.backend import Backend
from serving.journal.journal import text_hash
from serving.protocol.abilities import MAX_REFUSALS, room_after
from serving.protocol.budget import Budget, BudgetHeld, Price, Prices, Spend
from serving.protocol.errors import CallError, ErrorClass, InvalidReply
from serving.protocol.limits import Limits
from serving.protocol.messages import Answer, Message, max_prompt_tokens
from serving.protocol.model_name import Role
from serving.protocol.request import PROBE, AnyRequest, CallRecord, Failure, Reply, Request, Usage
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

_MAX_CHARACTERS_A_TOKEN = 64
"""More than any tokenizer packs into one token on average: a longer reply exceeds its token limit."""

_BYTES_BESIDE_TEXT = 64
"""Upper bound on the tokens that a chat template adds to a turn."""


class CallJournal(Protocol):
    """Storage of calls: a file of this run, or for a worker on a cluster the process that writes it."""

    async def find_all(self, request: AnyRequest) -> dict[int, Answer]:
        """The stored answers, by sample."""

    async def keep_all(self, request: AnyRequest, answers: Mapping[int, Answer]) -> None:
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

    def holds(self, request: AnyRequest) -> bool:
        """Whether one of its calls is in a batch."""

    async def ask(
        self, backend: Backend, request: AnyRequest, shaped: Callable[[], AnyRequest], price: Price | None
    ) -> NoReturn:
        """Add a request, in the form that `shaped` returns; always raises its state."""

    async def defer(self, case_id: str) -> NoReturn:
        """Have a case begin again once a batch has ended."""


@dataclass(slots=True)
class ModelClient:
    """Asks models: journal, limits, retries, parsing, correction turn and accounting in one place.

    Attributes:
        backends: The model of each role.
        limits: The user's limits for each endpoint.
        budget: The run's budget.
        prices: Prices by model; empty if the user set none.
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
        """Drop the state of a case that is no longer in progress."""
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

    async def ask(self, wanted: Request[T]) -> list[Reply[T] | Failure]:
        """One outcome for each sample, in order. A failed sample never takes the others with it.

        Raises:
            CallError: The model's service denies access, which ends the run.
            BudgetSpent: The request might break the budget.
        """
        assert wanted.role != PROBE
        backend = self.backends[wanted.role]
        request = replace(
            wanted,
            seed=wanted.seed if backend.takes_seed else None,
            model=backend.name.identity,
            revision=backend.revision,
            effort=backend.effort,
        )
        answers, failure = await self._answer(backend, request)

        async def outcome(sample: int) -> Reply[T] | Failure:
            if sample in answers:
                answer, replayed = answers[sample]
                return await self._read(backend, request.part((sample,)), answer, replayed)
            return Failure(failure or CallError("internal", "the provider left out a sample"))

        return list(await asyncio.gather(*(outcome(sample) for sample in request.samples)))

    async def _answer(
        self, backend: Backend, request: Request[T]
    ) -> tuple[dict[int, tuple[Answer, bool]], CallError | None]:
        """Answers by sample, each with whether it was replayed, and why samples are missing if any are."""
        stored = await self.journal.find_all(request)
        answers = {sample: (answer, True) for sample, answer in stored.items()}
        parts = _parts(backend, request, [sample for sample in request.samples if sample not in stored])
        if self.pool is not None:
            self.pool.expect(request.case_id, len(parts))
        failure: CallError | None = None
        for outcome in await asyncio.gather(
            *(self._request(backend, part) for part in parts), return_exceptions=True
        ):
            if isinstance(outcome, CallError) and outcome.error_class != "auth":
                failure = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                answers |= {sample: (answer, False) for sample, answer in outcome.items()}
        return answers, failure

    async def _read(
        self, backend: Backend, request: Request[T], answer: Answer, replayed: bool
    ) -> Reply[T] | Failure:
        """Parse a reply; if it breaks its format or refuses, quote that to the model and ask once more.

        A reply that was cut off because of its thinking is requested again with a wider limit before.
        """
        (sample,) = request.samples
        calls: tuple[CallRecord, ...] = ()
        rejected: list[str] = []
        if answer.thinking_tokens:
            backend.abilities.thinks = True
        if _was_cut_by_thinking(backend, request, answer):
            backend.abilities.thinks = True
            calls = (self._record(backend, request, answer, replayed, _cut_fault(answer)),)
            rejected.append(request.key(sample))
            request = replace(request, widened=True)
            answers, failure = await self._answer(backend, request)
            if not answers:
                return Failure(failure or CallError("internal", "the provider left out a sample"), calls)
            answer, replayed = answers[sample]
            self.usage.widened += not replayed or self._is_first_look(request.key(sample))
        unwritten = _is_thinking_only(backend, request, answer)
        fault = _cut_fault(answer) if unwritten else _fault(request, answer)
        first = self._record(backend, request, answer, replayed, fault)
        calls = (*calls, first)
        if fault is None:
            return _reply(request, answer, calls)
        rejected.append(request.key(sample))
        if unwritten:
            # Without a reply, a correction turn has nothing to quote.
            await self.journal.reject_all(rejected)
            return Failure(CallError("invalid_output", f"{answer.server}: {fault}"), calls)
        turns = (
            Message("assistant", answer.text[:_MAX_QUOTE].strip() or _NO_TEXT),
            Message("user", _CORRECTION.format(fault=fault)),
        )
        corrected = replace(request, messages=(*request.messages, *turns), widened=False)
        answers, failure = await self._answer(backend, corrected)
        if not answers:
            return Failure(failure or CallError("internal", "the provider left out a sample"), calls)
        second, second_replayed = answers[sample]
        second_fault = _fault(request, second)
        calls = (*calls, self._record(backend, corrected, second, second_replayed, second_fault))
        if second_fault is None:
            return _reply(request, second, calls)
        for used, attempt in ((1, second), (0, answer)):
            value = _fall_back(request, attempt)
            if value is not None:
                last = len(calls) - 2 + used
                marked = tuple(replace(call, incomplete=index == last) for index, call in enumerate(calls))
                return Reply(value, attempt.text, marked, second_fault, attempt.logprobs)
        await self.journal.reject_all([*rejected, corrected.key(sample)])
        error_class: ErrorClass = "refusal" if _refused(second) else "invalid_output"
        return Failure(CallError(error_class, f"{second.server}: {second_fault}"), calls)

    def _is_first_look(self, key: str) -> bool:
        """Whether a reply came in a batch of this session; a case reads it again after every batch."""
        if self.pool is None or key in self._widened or not self.pool.is_new(key):
            return False
        self._widened.add(key)
        return True

    async def _request(self, backend: Backend, request: AnyRequest) -> dict[int, Answer]:
        """Send samples as one request; each answer is stored on arrival.

        Raises:
            CallError: All attempts are spent.
            BudgetSpent: The request might break the budget.
        """
        price = self.price_of(backend)
        if self.pool is None:
            return await self._send(backend, request, price)
        if backend.batches is not None or self.pool.holds(request):

            def shaped() -> AnyRequest:
                sent = backend.abilities.shaped(_with_room(backend, request), backend.constraints)
                self._report_not_sent(backend)
                return sent

            await self.pool.ask(backend, request, shaped, price)
        try:
            answers = await self._send(backend, request, price)
        except BudgetHeld:
            await self.pool.defer(request.case_id)
        except BaseException:
            self.pool.came(request.case_id)
            raise
        self.pool.came(request.case_id)
        return answers

    async def _send(self, backend: Backend, request: AnyRequest, price: Price | None) -> dict[int, Answer]:
        roomy = _with_room(backend, request)
        async with self.budget.reserve(max_spend(roomy, price), request.case_id) as reservation:
            received = await self._received(backend, request, roomy)
            reservation.actual = spend(received, price)
            if not self.limits.keep_thinking:
                received = [replace(answer, thinking="") for answer in received]
            answers = dict(zip(request.samples, received, strict=False))
            # Counted first: a run that ends while the journal commits still finds them there.
            self.count_all([*answers.values()], price)
            if answers:
                await self.journal.keep_all(request, answers)
            return answers

    async def _received(self, backend: Backend, request: AnyRequest, roomy: AnyRequest) -> list[Answer]:
        """The answers to a request, resent without rejected parameters until the service accepts the rest.

        Raises:
            CallError: It refuses the request for another reason, or all attempts are spent.
        """
        abilities = backend.abilities
        for _ in range(MAX_REFUSALS):
            sent = abilities.shaped(roomy, backend.constraints)
            self._report_not_sent(backend)
            if "n" in abilities.refused and len(request.samples) > 1:
                parts = [
                    self._received(backend, request.part((sample,)), roomy.part((sample,)))
                    for sample in request.samples
                ]
                return [answer for part in await asyncio.gather(*parts) for answer in part]
            try:
                return await self.dispatcher.send(backend, sent)
            except CallError as error:
                if error.error_class == "context_length" and sent.max_tokens > request.max_tokens:
                    # The room for thinking exceeds the context window, whose size is not known exactly.
                    roomy = _with_room(backend, request, room_after(error) or 0)
                elif not abilities.learn(error, sent):
                    raise
                else:
                    roomy = _with_room(backend, request)
        raise CallError("internal", f"{backend.name} refuses every form of a request")

    def _report_not_sent(self, backend: Backend) -> None:
        for sentence in backend.abilities.unreported():
            logger.warning("%s: %s", backend.name, sentence)

    def count_all(self, answers: Sequence[Answer], price: Price | None) -> None:
        for answer in answers:
            self.count(answer, price)
        self._warn_of_estimates(answers)

    def count(self, answer: Answer, price: Price | None) -> None:
        """Count an answer on arrival: the case may end before the reply is stored or read."""
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
        self, backend: Backend, request: AnyRequest, answer: Answer, replayed: bool, fault: str | None
    ) -> CallRecord:
        (sample,) = request.samples
        key = request.key(sample)
        if self.pool is not None:
            # Its replies come through the journal, and are new all the same.
            replayed = replayed and not self.pool.is_new(key)
            self._replays[request.case_id] += replayed
        else:
            self.usage.replayed += replayed
        return CallRecord(
            key=key,
            role=request.role,
            sample=sample,
            model=str(backend.name),
            prompt=tuple(text_hash(message.text) for message in request.messages),
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
            effort=request.effort,
            widened=request.widened,
        )


def price_of(backend: Backend, prices: Prices) -> Price | None:
    """The price of a model's calls, which is less in batches; None where the user gave none."""
    price = prices.get(backend.name.identity)
    if price is None or backend.batches is None:
        return price
    return price.times(backend.batches.provider.limits.price_share)


def _with_room(backend: Backend, request: AnyRequest, most: int | None = None) -> AnyRequest:
    """The request with room for thinking, which `most` bounds, and with the best constraint."""
    bounds = [bound for bound in (backend.room_after(request.messages), most) if bound is not None]
    limit = request.max_tokens
    if not request.choices:
        room = min(bounds, default=None)
        limit = backend.abilities.limit(limit, request.effort, room, wide=request.widened)
    return replace(
        request,
        max_tokens=limit,
        constraint=backend.constraints[0],
        logprobs=(request.logprobs and backend.logprobs) or bool(request.choices),
    )


def _reply(request: Request[T], answer: Answer, calls: tuple[CallRecord, ...]) -> Reply[T]:
    return Reply(request.reply.parse(answer.text), answer.text, calls, logprobs=answer.logprobs)


def _refused(answer: Answer) -> bool:
    return answer.finish_reason in _REFUSALS


def _fault(request: Request[T], answer: Answer) -> str | None:
    """Fault of a reply, in words that can be quoted to the model; None if valid."""
    reply = request.reply
    if _refused(answer):
        return _REFUSED
    if len(answer.text) > _MAX_CHARACTERS_A_TOKEN * request.max_tokens:
        allowed = plural(request.max_tokens, "token")
        return f"the reply is {len(answer.text):,} characters long, for {allowed} at most"
    if answer.is_cut_off and (not reply.may_be_cut or answer.is_unwritten) and not request.choices:
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


def _was_cut_by_thinking(backend: Backend, request: Request[T], answer: Answer) -> bool:
    """Whether a wider limit may complete a missing or partial reply.

    The text of a model that thinks may be thinking itself: where a chat template opens the tag and the limit
    comes before its end, no tag is in it.
    """
    if request.choices or not answer.is_cut_off:
        return False
    thought = answer.is_unwritten or answer.thinking_tokens > 0
    return thought or backend.abilities.may_think(backend.effort)


def _is_thinking_only(backend: Backend, request: Request[T], answer: Answer) -> bool:
    """Whether even the widest limit brought no reply: thinking without its end may lack all tags."""
    if request.choices or not answer.is_cut_off:
        return False
    endless = not answer.thinking_tokens and answer.output_tokens > request.max_tokens
    return answer.is_unwritten or (endless and backend.abilities.may_think(backend.effort))


def _fall_back(request: Request[T], answer: Answer) -> T | None:
    fallback = request.reply.fallback
    too_long = len(answer.text) > _MAX_CHARACTERS_A_TOKEN * request.max_tokens
    if fallback is None or _refused(answer) or too_long:
        return None
    try:
        return fallback(answer.text)
    except InvalidReply:
        return None


def _parts(backend: Backend, request: AnyRequest, samples: Sequence[int]) -> list[AnyRequest]:
    """Samples of one prompt, by the requests that ask for them."""
    size = len(samples) if backend.many_samples else 1
    if backend.batches is not None:
        size = min(size, backend.batches.max_samples)
    return [request.part(tuple(samples[start : start + size])) for start in range(0, len(samples), size or 1)]


def max_spend(request: AnyRequest, price: Price | None) -> Spend:
    """The most that a request may use."""
    read, written = max_prompt_tokens(request.messages), request.max_reply_tokens
    return Spend(read + written, price.cost(read, written) if price else 0.0)


def spend(answers: Sequence[Answer], price: Price | None) -> Spend:
    """Use by answers."""
    read = sum(answer.input_tokens for answer in answers)
    written = sum(answer.output_tokens for answer in answers)
    cached = sum(answer.cached_tokens for answer in answers)
    return Spend(read + written, price.cost(read, written, cached) if price else 0.0)
