"""From a request to its answers: server, place, attempts. Nothing here knows what replies mean."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential_jitter

from serving.backends.backend import Backend, CallParameters, Server
from serving.endpoint import Endpoint, Look, rate
from serving.errors import CallError
from serving.exchange import exchange
from serving.journal import Answer
from serving.limiter import AdaptiveLimiter
from serving.limits import Limits
from serving.messages import Message
from serving.routing import choose, prefix_of
from serving.token_estimate import most_prompt_tokens, most_reply_tokens

LONGEST_WAIT_S = 300.0
"""A server that asks for a longer pause is asked again after this one."""

_WORD_S = 30.0
"""Seconds that a busy server may take for the smallest request."""

_BACKOFF = wait_exponential_jitter(initial=1, max=60)


@dataclass(slots=True)
class _Conversations:
    """Those of one case: its turn among the cases, the server of each, and the servers that failed it."""

    priority: int
    servers: dict[str, str] = field(default_factory=dict)
    avoided: set[str] = field(default_factory=set)


class Dispatcher:
    """Sends requests to the servers of all backends, within the user's limits."""

    def __init__(self, backends: Iterable[Backend], limits: Limits, report: Callable[[str], None]) -> None:
        """One endpoint an address, however many models and roles share it.

        Args:
            backends: The models, of which roles may share one.
            limits: What the user allows for each endpoint.
            report: Told when a server goes and when it comes back.
        """
        self._limits = limits
        self._report = report
        self._cases: dict[str, _Conversations] = {}
        self._turns = itertools.count()
        self.endpoints: dict[str, Endpoint] = {}
        for backend in backends:
            for server in backend.servers:
                if server.endpoint not in self.endpoints:
                    self.endpoints[server.endpoint] = self._endpoint(backend, server)

    def _endpoint(self, backend: Backend, server: Server) -> Endpoint:
        most = self._limits.max_connections or backend.max_connections
        start = min(self._limits.start_connections or backend.start_connections, most)
        look = Look(server.is_up, partial(_answers_a_word, server, min(_WORD_S, self._limits.timeout)))
        endpoint = Endpoint(
            server.endpoint,
            AdaptiveLimiter(float(start), most),
            look,
            self._report,
            rate(self._limits.rpm),
            rate(self._limits.tpm),
        )
        if not server.reached:
            endpoint.mark_down(CallError("connection", "it did not answer at the start"), look.thorough)
        return endpoint

    async def send(self, backend: Backend, messages: Sequence[Message], call: CallParameters) -> list[Answer]:
        """One request, tried again while that may help.

        Raises:
            CallError: All attempts are spent, or the failure is one that another attempt would meet too.
        """
        endpoints = [self.endpoints[server.endpoint] for server in backend.servers]
        spent = all(endpoint.spent for endpoint in endpoints)
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(1 if spent else self._limits.max_retries + 1),
                wait=_wait,
                retry=retry_if_exception(lambda error: isinstance(error, CallError) and error.curable),
                reraise=True,
            ):
                with attempt:
                    return await self._attempt(
                        backend, messages, call, retries=attempt.retry_state.attempt_number - 1
                    )
        except CallError as error:
            if error.error_class == "connection":
                for endpoint in endpoints:
                    endpoint.spent = True
            raise
        raise AssertionError("tenacity ends by a result or an exception")

    def is_up(self, backend: Backend) -> bool:
        """Whether any server of a model answers."""
        return any(not self.endpoints[server.endpoint].down for server in backend.servers)

    def forget(self, case_id: str) -> None:
        """A case has ended: its conversations no longer count as load."""
        self._cases.pop(case_id, None)

    async def close(self) -> None:
        """Stop all watching."""
        for endpoint in self.endpoints.values():
            await endpoint.close()

    async def _attempt(
        self, backend: Backend, messages: Sequence[Message], call: CallParameters, retries: int
    ) -> list[Answer]:
        case = self._cases.get(call.case_id)
        if case is None:
            case = self._cases[call.case_id] = _Conversations(next(self._turns))
        tokens = most_prompt_tokens(messages) + most_reply_tokens(call)
        while True:
            await self._wait_until_one_is_up(backend)
            server = self._route(backend, messages, case)
            endpoint = self.endpoints[server.endpoint]
            async with endpoint.place(case.priority, tokens) as taken:
                if endpoint.down:
                    # It went while the request waited for its place; that is no attempt.
                    continue
                try:
                    answers = await exchange(
                        server, messages, call, limit_s=self._limits.timeout, retries=retries
                    )
                except CallError as error:
                    if error.error_class in ("connection", "timeout"):
                        case.avoided.add(server.endpoint)
                    await self._learn(endpoint, error, taken)
                    raise
            endpoint.succeeded(sum(answer.output_tokens for answer in answers))
            # Whoever waited for the place goes first: its request is under way while this reply is read.
            await asyncio.sleep(0)
            return answers

    async def _wait_until_one_is_up(self, backend: Backend) -> None:
        """Wait for the first server to come back, if all are away.

        Raises:
            CallError: All have been away for too long.
        """
        endpoints = [self.endpoints[server.endpoint] for server in backend.servers]
        if not all(endpoint.down for endpoint in endpoints):
            return
        most = self._limits.max_outage if self._limits.max_retries else 0.0
        waits = [asyncio.ensure_future(endpoint.wait_until_up(most)) for endpoint in endpoints]
        try:
            for wait in asyncio.as_completed(waits):
                try:
                    return await wait
                except CallError as error:
                    failure = error
            raise failure
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _learn(self, endpoint: Endpoint, error: CallError, taken: float) -> None:
        """From a failure. The next attempt need not pause where it waits for a return, or goes elsewhere."""
        if error.error_class == "rate_limit":
            pause = None if error.retry_after is None else min(error.retry_after, LONGEST_WAIT_S)
            endpoint.limiter.refused(taken, pause)
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
    call = CallParameters(
        role="probe",
        case_id="",
        samples=(0,),
        temperature=0.0,
        max_tokens=1,
        schema=None,
        schema_name="",
    )
    try:
        await exchange(server, (Message("user", "Hello"),), call, limit_s=limit_s, retries=0)
    except CallError as error:
        return error.error_class not in ("connection", "timeout")
    return True


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, CallError) and error.retry_after is not None:
        return min(error.retry_after, LONGEST_WAIT_S)
    return float(_BACKOFF(state))
