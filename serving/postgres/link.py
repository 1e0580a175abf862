"""A connection that outlives restarts of its database, and work that is gathered into few trips to it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_delay
from tenacity.wait import wait_random_exponential

from cases.texts import one_line
from serving.postgres.address import StoreAddress, StoreError

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg import Connection as BlockingConnection

    Connection = AsyncConnection[tuple[Any, ...]]

logger = logging.getLogger("evigraph.serving")

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_WAIT_S = 5.0
"""Between two attempts to connect again."""

ANSWER_S = 30.0
"""For which a statement may take before the server is asked whether it still answers anyone."""

_LOOKS = 4
"""At a statement that has not come back, in this time."""

_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "application_name": "evigraph",
    # A network that fails in silence is noticed within half a minute. A server that hangs is not: the kernel
    # of its machine goes on to confirm what arrives.
    **{"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000},
}


class Link:
    """One connection; opened when it is first needed, and again whenever it is lost.

    All work is done again when it may not have been: it must come to the same when it is done twice.
    """

    def __init__(self, address: StoreAddress, outage_s: float, report: Callable[[str], None]) -> None:
        """Nothing is opened yet.

        Args:
            address: Of the database.
            outage_s: Seconds for which a database that is away is waited for.
            report: Called with a line when it has gone away.
        """
        self.address = address
        self._outage_s = outage_s
        # Most of an outage is left for the attempts after the first.
        self._answer_s = min(ANSWER_S, outage_s / 4) or ANSWER_S
        self._report = report
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()

    async def do(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Do some work, one at a time; each statement of it is a transaction, unless it begins one.

        Raises:
            StoreError: The database refuses it, or was away for longer than is waited.
        """
        async with self._turn:
            attempts = AsyncRetrying(
                retry=retry_if_exception(_passes),
                stop=stop_after_delay(self._outage_s),
                wait=wait_random_exponential(0.1, MAX_WAIT_S),
                before_sleep=self._tell,
                reraise=True,
            )
            try:
                return await attempts(self._try, work)
            except Exception as error:
                raise explained(self.address, error, self._outage_s) from error

    async def _try(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        if self._connection is None or self._connection.closed:
            self._connection = await self._connect()
        try:
            return await self._answered(self._connection, work)
        except BaseException as error:
            # Whoever is cancelled in the middle of a trip leaves a connection that no one else can use.
            if not isinstance(error, Exception) or _passes(error):
                await self.close()
            raise

    async def _connect(self) -> Connection:
        async with asyncio.timeout(max(self._answer_s, MAX_WAIT_S)):
            return await connect(self.address)

    async def _answered(
        self, connection: Connection, work: Callable[[Connection], Awaitable[Result]]
    ) -> Result:
        """Do some work; a connection whose server does not answer any more is cut.

        What was sent may be done all the same once the server wakes up, after it was done again.

        Raises:
            TimeoutError: It answers neither this connection nor a new one.
        """
        task = asyncio.ensure_future(work(connection))
        patience = self._answer_s
        try:
            while not (await asyncio.wait({task}, timeout=self._answer_s / _LOOKS))[0]:
                if getattr(connection, "waited", 0.0) < patience:
                    continue
                if not await self._answers():
                    cut(connection)
                    # Before it is cancelled: the driver would ask the server to end the statement.
                    await asyncio.wait({task}, timeout=1)
                    raise TimeoutError
                # Such as one that waits until another runner has all cases in.
                if patience == self._answer_s:
                    self._report(f"store {self.address.name}: a statement takes long; the server answers")
                patience += self._answer_s
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _answers(self) -> bool:
        """Whether the server answers a new connection, and be it with a refusal."""
        try:
            connection = await self._connect()
        except Exception as error:
            return not is_silence(error)
        await connection.close()
        return True

    def _tell(self, state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            reason = _reason(state.outcome.exception())
            self._report(f"store {self.address.name}: {reason}; trying again for {self._outage_s:g} s")

    async def close(self) -> None:
        """Close the connection; work opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()


def parameters(address: StoreAddress) -> str:
    """What the driver connects by.

    Raises:
        StoreError: The address has parameters that there are none of.
    """
    from psycopg import ProgrammingError, conninfo

    try:
        given = conninfo.conninfo_to_dict(address.url)
        # An address in the environment would take the place of the host that passed the gate.
        return conninfo.make_conninfo(**{**_DEFAULTS, **given, "hostaddr": ""})
    except ProgrammingError:
        # What the driver says of it quotes the address, and so may hold the password.
        raise StoreError(f"store {address.name}: its parameters are not those of PostgreSQL") from None


@cache
def _watched() -> type[Connection]:
    """The driver's connection, which knows for how long it has been waiting for its server."""
    from psycopg import AsyncConnection

    class Watched(AsyncConnection[tuple[Any, ...]]):
        _since: float | None = None

        @property
        def waited(self) -> float:
            """Seconds that the present exchange with the server has taken; a copy is many of them."""
            return 0.0 if self._since is None else time.monotonic() - self._since

        async def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
            self._since = time.monotonic()
            try:
                return await super().wait(gen, *args, **kwargs)
            finally:
                self._since = None

    return Watched


def cut(connection: Connection | BlockingConnection[Any]) -> None:
    """Break a connection at this end, so that whoever waits on it learns at once that it is lost."""
    from psycopg import Error

    with contextlib.suppress(OSError, Error), socket.socket(fileno=os.dup(connection.fileno())) as ended:
        ended.shutdown(socket.SHUT_RDWR)


async def connect(address: StoreAddress) -> Connection:
    """A connection on which every statement is durable once it has come back.

    Raises:
        psycopg.Error: There is none.
    """
    connection = await _watched().connect(parameters(address), autocommit=True)
    # A database may be set to lose what it has confirmed.
    await connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') = 'off'"
    )
    return connection


@contextlib.asynccontextmanager
async def connected(address: StoreAddress) -> AsyncIterator[Connection]:
    """A connection for what is done once and is not tried again.

    Raises:
        StoreError: There is none, or the database refuses what is done with it.
    """
    try:
        connection = await connect(address)
        try:
            yield connection
        finally:
            await connection.close()
    except Exception as error:
        raise explained(address, error) from error


def _passes(error: BaseException) -> bool:
    """Whether it may be over in a while: a database that is away, is starting or has no room."""
    from psycopg import InterfaceError, OperationalError

    return isinstance(error, OperationalError | InterfaceError | TimeoutError | ConnectionError)


def is_silence(error: BaseException | None) -> bool:
    """Whether nothing was heard of the server at all."""
    from psycopg.errors import ConnectionTimeout

    return isinstance(error, TimeoutError | ConnectionTimeout)


def explained(address: StoreAddress, error: Exception, outage_s: float = 0) -> Exception:
    """An error of the driver as one line; any other as it is."""
    from psycopg import Error

    if isinstance(error, StoreError) or not isinstance(error, Error | OSError):
        return error
    waited = f" for {outage_s:g} s" if outage_s and _passes(error) else ""
    return StoreError(f"store {address.name}: {_reason(error)}{waited}")


def _reason(error: BaseException | None) -> str:
    """The first line of what the driver says: the others quote statements and rows."""
    from psycopg import Error

    if is_silence(error):
        return "the server does not answer"
    message = error.diag.message_primary if isinstance(error, Error) else None
    lines = (message or str(error)).splitlines() or [type(error).__name__]
    return one_line(lines[0])[:300]


class Trips(Generic[Item, Result]):
    """Gathers what is wanted while a trip is under way into the next one.

    So a database that takes a millisecond for a commit holds up no case, and a hundred calls that end
    together are one commit. Whoever waits may be cancelled; what was taken travels all the same.
    """

    def __init__(self, travel: Callable[[list[Item]], Awaitable[list[Result]]], most: int = 256) -> None:
        """Without any trip.

        Args:
            travel: Brings the result of each item.
            most: Items of one trip.
        """
        self._travel = travel
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._under_way: asyncio.Task[None] | None = None

    async def take(self, item: Item) -> Result:
        """The result of an item, once its trip is over; raises what the trip has raised."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            # Whoever is about to ask in this turn of the loop comes along.
            await asyncio.sleep(0)
            while self._waiting:
                taken, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                try:
                    results = await self._travel([item for item, _ in taken])
                except Exception as error:
                    for _, future in taken:
                        if not future.done():
                            future.set_exception(error)
                else:
                    for (_, future), result in zip(taken, results, strict=True):
                        if not future.done():
                            future.set_result(result)
        finally:
            self._under_way = None

    async def settle(self) -> None:
        """Wait until everything that was taken has arrived."""
        while self._under_way is not None:
            await asyncio.gather(self._under_way, return_exceptions=True)
