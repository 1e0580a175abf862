"""From a request to its answers: server, place, attempts. Nothing here knows what replies mean.

Of several servers, a conversation goes to the one that most likely has its prefix in its cache. Rendezvous
hashing over the beginning of the conversation sends cases with the same demonstrations to the same server,
and changes little when a server goes or comes. Loads are bounded, as in consistent hashing with bounded
loads (Mirrokni et al. 2018): a beginning that many cases share must not fill one server.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential_jitter

from serving.backends.backend import Backend, Server, exchange
from serving.protocol.errors import CallError
from serving.protocol.limits import AdaptiveLimiter, Limits
from serving.protocol.messages import Answer, Message, max_prompt_tokens
from serving.protocol.reply import FREE_TEXT
from serving.protocol.request import PROBE, AnyRequest, Request
from serving.requests.endpoint import Endpoint, Look, rate

logger = logging.getLogger("evigraph.serving")

MAX_WAIT_S = 300.0
"""A server that asks for a longer pause is asked again after this one."""

_WORD_S = 30.0
"""Time limit of the smallest request to a busy server."""

_PREFIX_TURNS = 2
"""The system turn, and the first demonstration or else the case itself; follow-up turns leave both."""

_SLACK = 1.25
"""Most conversations of a server, as a multiple of the mean."""

_BACKOFF = wait_exponential_jitter(initial=1, max=60)


@dataclass(slots=True)
class _Conversations:
    """The conversations of one case: its turn, the server of each, and the servers that failed it."""

    priority: int
    servers: dict[str, str] = field(default_factory=dict)
    avoided: set[str] = field(default_factory=set)


class Dispatcher:
    """Sends requests to the servers of all backends, within the user's limits."""

    def __init__(
        self, backends: Iterable[Backend], limits: Limits, retries: Counter[str] | None = None
    ) -> None:
        """One endpoint an address, however many models and roles share it.

        `sent` holds when each request left that has no reply yet, on the monotonic clock.
        """
        self._limits = limits
        self._retries: Counter[str] = Counter() if retries is None else retries
        self._cases: dict[str, _Conversations] = {}
        self._turns = itertools.count()
        self.endpoints: dict[str, Endpoint] = {}
        self.sent: list[float] = []
        for backend in backends:
            for server in backend.servers:
                if server.endpoint not in self.endpoints:
                    self.endpoints[server.endpoint] = self._endpoint(backend, server)

    def _endpoints(self, backend: Backend) -> list[Endpoint]:
        return [self.endpoints[server.endpoint] for server in backend.servers]

    def _endpoint(self, backend: Backend, server: Server) -> Endpoint:
        width = self._limits.max_connections or backend.max_connections
        start = min(self._limits.start_connections or backend.start_connections, width)
        # A model in this process cannot be down, and a check would wait in its own queue.
        thorough = partial(_answers_a_word, server, min(_WORD_S, self._limits.timeout))
        look = None if server.in_process else Look(server.is_up, thorough)
        endpoint = Endpoint(
            server.endpoint,
            AdaptiveLimiter(float(start), width),
            look,
            rate(self._limits.rpm),
            rate(self._limits.tpm),
            self._choice_limiter(backend),
        )
        if not server.reached:
            endpoint.mark_down(CallError("connection", "it did not answer at the start"), thorough)
        return endpoint

    def _choice_limiter(self, backend: Backend) -> AdaptiveLimiter | None:
        """Fixed: what answers choices in one pass gains nothing from a slow start."""
        if not backend.choices_at_once:
            return None
        width = min(self._limits.max_connections or backend.choices_at_once, backend.choices_at_once)
        return AdaptiveLimiter(float(width), width)

    async def send(self, backend: Backend, request: AnyRequest) -> list[Answer]:
        """One request, tried again while that may help.

        Raises:
            CallError: All attempts are spent, or the failure is one that another attempt would meet too.
        """
        endpoints = self._endpoints(backend)
        spent = all(endpoint.spent for endpoint in endpoints)
        try:
            async for attempt in attempts(0 if spent else self._limits.max_retries, self._count_retry):
                with attempt:
                    return await self._attempt(
                        backend, request, retries=attempt.retry_state.attempt_number - 1
                    )
        except CallError as error:
            if error.error_class == "connection":
                for endpoint in endpoints:
                    endpoint.spent = endpoint.look is not None
            raise
        raise AssertionError("tenacity ends by a result or an exception")

    def _count_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, CallError):
            self._retries[error.error_class] += 1

    def is_up(self, backend: Backend) -> bool:
        return any(not endpoint.down for endpoint in self._endpoints(backend))

    def forget(self, case_id: str) -> None:
        """A case has ended: its conversations no longer count as load."""
        self._cases.pop(case_id, None)

    async def close(self) -> None:
        for endpoint in self.endpoints.values():
            await endpoint.close()

    async def _attempt(self, backend: Backend, request: AnyRequest, retries: int) -> list[Answer]:
        case = self._cases.get(request.case_id)
        if case is None:
            case = self._cases[request.case_id] = _Conversations(next(self._turns))
        tokens = max_prompt_tokens(request.messages) + request.max_reply_tokens
        while True:
            await self._wait_until_one_is_up(backend)
            server = self._route(backend, request.messages, case)
            endpoint = self.endpoints[server.endpoint]
            async with endpoint.place(case.priority, tokens, choice=bool(request.choices)) as taken:
                if endpoint.down:
                    # It went down while the request waited for a slot; this does not count as an attempt.
                    continue
                self.sent.append(began := time.monotonic())
                try:
                    answers = await exchange(server, request, limit_s=self._limits.timeout, retries=retries)
                except CallError as error:
                    logger.debug("attempt %d for case %s failed: %s", retries + 1, request.case_id, error)
                    if error.error_class in ("connection", "timeout"):
                        case.avoided.add(server.endpoint)
                    await self._learn(endpoint, error, taken)
                    raise
                finally:
                    self.sent.remove(began)
            endpoint.succeeded(sum(answer.output_tokens for answer in answers))
            # The request that waited for the place goes first: it is under way while this reply is read.
            await asyncio.sleep(0)
            return answers

    async def _wait_until_one_is_up(self, backend: Backend) -> None:
        """Wait for the first server to come back, if all are down.

        Raises:
            CallError: All have been down for too long.
        """
        while not self.is_up(backend):
            await self._wait_for_change(backend)

    async def _wait_for_change(self, backend: Backend) -> None:
        endpoints = self._endpoints(backend)
        max_outage = self._limits.max_outage if self._limits.max_retries else 0.0
        waits = [asyncio.ensure_future(endpoint.wait_until_up(max_outage)) for endpoint in endpoints]
        pending: set[asyncio.Future[None]] = {*waits}
        failure: BaseException | None = None
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                failures = [wait.exception() for wait in done]
                if None in failures:
                    return
                failure = failures[0]
            assert failure is not None
            raise failure
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _learn(self, endpoint: Endpoint, error: CallError, taken: float) -> None:
        """From a failure. The next attempt need not pause where it waits for the server or goes elsewhere."""
        if error.error_class == "rate_limit":
            pause = None if error.retry_after is None else min(error.retry_after, MAX_WAIT_S)
            endpoint.limiter.refused(taken, pause)
            logger.debug("%s: %.1f requests at once from now on", endpoint.address, endpoint.limiter.width)
        elif error.error_class in ("connection", "timeout"):
            await endpoint.failed(error)
            if endpoint.down:
                error.retry_after = 0.0

    def _route(self, backend: Backend, messages: Sequence[Message], case: _Conversations) -> Server:
        servers = {server.endpoint: server for server in backend.servers}
        if len(servers) == 1:
            return backend.servers[0]
        prefix = prefix_of(messages)
        chosen = case.servers.get(prefix)
        up = [address for address in servers if not self.endpoints[address].down] or list(servers)
        up = [address for address in up if address not in case.avoided] or up
        if chosen not in up:
            loads = dict.fromkeys(up, 0)
            for other in self._cases.values():
                for address in other.servers.values():
                    if address in loads:
                        loads[address] += 1
            chosen = choose(prefix, loads)
            case.servers[prefix] = chosen
        return servers[chosen]


async def _answers_a_word(server: Server, limit_s: float) -> bool:
    """Whether the smallest request gets any reply in time."""
    request = Request(PROBE, "", (Message("user", "Hello"),), FREE_TEXT, max_tokens=1, seed=None)
    try:
        await exchange(server, request, limit_s=limit_s, retries=0)
    except CallError as error:
        return error.error_class not in ("connection", "timeout")
    return True


def attempts(max_retries: int, before_retry: Callable[[RetryCallState], None] | None = None) -> AsyncRetrying:
    """The attempts of one request: further ones while its failure is retryable, after the pause it needs."""
    return AsyncRetrying(
        stop=stop_after_attempt(max_retries + 1),
        wait=_wait,
        before_sleep=before_retry,
        retry=retry_if_exception(lambda error: isinstance(error, CallError) and error.retryable),
        reraise=True,
    )


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, CallError) and error.retry_after is not None:
        return min(error.retry_after, MAX_WAIT_S)
    return float(_BACKOFF(state))


def prefix_of(messages: Sequence[Message]) -> str:
    """Names the beginning that follow-ups of a conversation, and cases like it, share."""
    digest = hashlib.sha256()
    for message in messages[:_PREFIX_TURNS]:
        digest.update(message.text.encode(errors="replace") + b"\0")
    return digest.hexdigest()


def choose(prefix: str, loads: Mapping[str, int]) -> str:
    """The address for a new conversation."""
    bound = math.ceil(_SLACK * (sum(loads.values()) + 1) / len(loads))
    ranked = sorted(loads, key=lambda address: _weight(prefix, address), reverse=True)
    return next(address for address in ranked if loads[address] < bound)


def _weight(prefix: str, address: str) -> bytes:
    return hashlib.sha256(f"{prefix} {address}".encode()).digest()
