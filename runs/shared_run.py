"""A run that several runners work on: its identity, its cases with their leases, results and sessions.

A runner leases cases for a time by the clock of the database, and renews its leases while it lives. Each
lease has a fence, a number larger than all before it. A result is taken from the last fence of its case
alone, so a runner that was away for longer than its lease writes nothing over what another has done since.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cases.load import CaseSource
from graph.recipe import differing_fields
from runs.manifest import FAILED, WAITING, Manifest, RunError, Session, differences
from serving.postgres.address import StoreAddress
from serving.postgres.link import Link
from serving.traffic import Traffic, count

if TYPE_CHECKING:
    from serving.postgres.link import Connection

LEASE_S = 60.0

_FETCHED = 200


class Lease(NamedTuple):
    """A case that a runner may run.

    Attributes:
        position: In the input, from 0.
        case_id: As bytes, as an id may hold what PostgreSQL takes in no text.
        before: How it had ended before it was opened again; None for a new one.
        review: JSON of the review with which it goes on.
    """

    position: int
    case_id: bytes
    fence: int
    before: str | None
    review: str | None


class Stored(NamedTuple):
    """The last result of a case, as its run folder has it."""

    line: bytes
    trace: bytes


# Materialized, as a planner may otherwise look for the next cases more than once.
_LEASE = """
WITH next AS MATERIALIZED (
    SELECT position FROM cases
    WHERE state = 'open' AND (expires IS NULL OR expires < clock_timestamp())
    AND (%(reviewed)s IS FALSE OR review IS NOT NULL) AND position <> ALL(%(held)s::bigint[])
    ORDER BY position LIMIT %(number)s FOR UPDATE SKIP LOCKED
)
UPDATE cases SET holder = %(holder)s, fence = nextval('fences'),
    expires = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM next WHERE cases.position = next.position
RETURNING cases.position, case_id, fence, before, review
"""

_RENEW = """
UPDATE cases SET expires = clock_timestamp() + make_interval(secs => %s)
FROM unnest(%s::bigint[], %s::bigint[]) AS mine (position, fence)
WHERE cases.position = mine.position AND cases.fence = mine.fence AND state = 'open'
RETURNING cases.fence
"""

_FINISH = """
UPDATE cases SET state = %(state)s, line = COALESCE(%(line)s, line), trace = COALESCE(%(trace)s, trace),
    before = NULL, review = NULL, expires = NULL
WHERE position = %(position)s AND fence = %(fence)s AND state = 'open'
"""


class SharedRun:
    """One runner's view of a run in PostgreSQL. Close it at the end."""

    def __init__(
        self,
        address: StoreAddress,
        runner: str,
        report: Callable[[str], None],
        *,
        lease_s: float = LEASE_S,
        outage_s: float = 0.0,
    ) -> None:
        """Nothing is opened yet.

        Args:
            address: Where it is.
            runner: Names this one among all that ever work on the run.
            report: Called with a line when the database has gone away.
            lease_s: Seconds after which the cases of a runner that does not respond are taken over.
            outage_s: Seconds for which a database that is away is waited for.
        """
        self.address = address
        self.runner = runner
        self.lease_s = lease_s
        self._link = Link(address, outage_s, report)

    async def join(
        self,
        manifest: Manifest,
        source: CaseSource,
        compared: Mapping[str, Sequence[str]],
        *,
        begin: bool,
    ) -> None:
        """Begin the run, or make sure that it is this one.

        Args:
            manifest: What this runner would run.
            source: Its cases.
            compared: Fields of the records of resources that have to be the same, by record.
            begin: Whether the run may begin now.

        Raises:
            RunError: The database holds another run, or none; names what differs.
        """

        async def begin_or_read(connection: Connection) -> str:
            async with connection.transaction():
                if begin:
                    # Whoever comes second waits here until the first has all its cases in.
                    new = await connection.execute(
                        "INSERT INTO run (manifest) VALUES (%s) ON CONFLICT DO NOTHING RETURNING 1",
                        (manifest.model_dump_json(),),
                    )
                    if await new.fetchone() is not None:
                        await _add_cases(connection, source)
                found = await connection.execute("SELECT manifest FROM run")
                row = await found.fetchone()
                return "" if row is None else str(row[0])

        text = await self._link.do(begin_or_read)
        if not text:
            raise RunError(f"store {self.address.name}: no run here; was the database made anew?")
        recorded = Manifest.model_validate_json(text)
        changed = [f"recipe {name}" for name in differing_fields(recorded.recipe, manifest.recipe)]
        changed += differences(recorded, manifest, compared)
        changed += _unlike_seeds(recorded, manifest)
        if changed:
            raise RunError(
                f"store {self.address.name}: it holds a run that differs from this one in:"
                f" {', '.join(dict.fromkeys(changed))}. Undo the change, or name another database"
            )

    async def lease(self, number: int, held: Collection[int], *, reviewed: bool = False) -> list[Lease]:
        """Lease the next cases that are free, in the order of the input.

        Args:
            number: How many, at most.
            held: Positions of those that this runner is at, whatever became of their leases.
            reviewed: Only those with a review.
        """

        async def lease(connection: Connection) -> list[Lease]:
            given = {
                "holder": self.runner,
                "number": number,
                "held": list(held),
                "reviewed": reviewed,
                "seconds": self.lease_s,
            }
            found = await connection.execute(_LEASE, given)
            return sorted(Lease(*row) for row in await found.fetchall())

        return await self._link.do(lease)

    async def is_open(self, *, reviewed: bool = False) -> bool:
        """Whether a case has not ended, whoever holds it."""
        only = " AND review IS NOT NULL" if reviewed else ""
        return bool(await self._value(f"SELECT EXISTS (SELECT FROM cases WHERE state = 'open'{only})"))  # noqa: S608

    async def renew(self, leases: Iterable[Lease]) -> set[int]:
        """Renew leases; the fences of those that are still this runner's."""
        mine = list(leases)

        async def renew(connection: Connection) -> set[int]:
            given = (self.lease_s, [one.position for one in mine], [one.fence for one in mine])
            return {fence for (fence,) in await (await connection.execute(_RENEW, given)).fetchall()}

        return await self._link.do(renew) if mine else set()

    async def release(self, leases: Iterable[Lease]) -> None:
        """Let others have cases at once that this runner will not end."""
        mine = [one.fence for one in leases]

        async def release(connection: Connection) -> None:
            await connection.execute(
                "UPDATE cases SET expires = NULL WHERE state = 'open' AND fence = ANY(%s::bigint[])", (mine,)
            )

        if mine:
            await self._link.do(release)

    async def finish(self, lease: Lease, state: str, result: Stored | None) -> bool:
        """Store how a case ended.

        Args:
            lease: Under which it ran.
            state: Its new one.
            result: None where the earlier one stays.

        Returns:
            Whether it was taken; False where the lease was lost and another runner has the case.
        """
        given = {"state": state, "position": lease.position, "fence": lease.fence}
        given |= {"line": None, "trace": None} if result is None else result._asdict()

        async def finish(connection: Connection) -> bool:
            if (await connection.execute(_FINISH, given)).rowcount:
                return True
            # The connection may have been lost after the commit.
            found = await connection.execute(
                "SELECT 1 FROM cases WHERE position = %s AND fence = %s AND state <> 'open'",
                (lease.position, lease.fence),
            )
            return await found.fetchone() is not None

        taken = await self._link.do(finish)
        sent = 0 if result is None else len(result.line) + len(result.trace)
        count(self.address.urls[0], Traffic(1, 0, sent, 0))
        return taken

    async def open_failed(self) -> None:
        """Have the failed cases run again."""
        await self._open("state LIKE %s", (f"{FAILED}:%",))

    async def open_again(self, case_ids: Collection[str]) -> None:
        """Have cases run again that have ended."""
        await self._open("state <> 'open' AND case_id = ANY(%s)", ([*map(as_bytes, case_ids)],))

    async def _open(self, which: str, values: tuple[Any, ...]) -> None:
        async def open_(connection: Connection) -> None:
            await connection.execute(
                f"UPDATE cases SET before = state, state = 'open', expires = NULL WHERE {which}",  # noqa: S608
                values,
            )

        await self._link.do(open_)

    async def open_reviewed(self, reviews: Mapping[str, str]) -> None:
        """Have waiting cases go on, each with the JSON of its review, in whichever runner."""

        async def open_(connection: Connection) -> None:
            async with connection.cursor() as cursor:
                await cursor.executemany(
                    "UPDATE cases SET before = state, state = 'open', expires = NULL, review = %s"
                    " WHERE case_id = %s AND state = %s",
                    [(review, as_bytes(case_id), WAITING) for case_id, review in reviews.items()],
                )

        if reviews:
            await self._link.do(open_)

    async def totals(self) -> dict[str, int]:
        """Cases by state; those that were opened again count as they had ended."""

        async def fetch(connection: Connection) -> dict[str, int]:
            found = await connection.execute(
                "SELECT COALESCE(before, state), COUNT(*) FROM cases WHERE COALESCE(before, state) <> 'open'"
                " GROUP BY 1"
            )
            return {str(state): int(number) for state, number in await found.fetchall()}

        return await self._link.do(fetch)

    async def save_session(self, session: Session) -> None:
        """Record this runner's session as it is now."""

        async def save(connection: Connection) -> None:
            await connection.execute(
                "INSERT INTO sessions (runner, record) VALUES (%s, %s)"
                " ON CONFLICT (runner) DO UPDATE SET record = EXCLUDED.record",
                (self.runner, session.model_dump_json()),
            )

        await self._link.do(save)

    async def sessions(self) -> list[Session]:
        """Those of all runners, in the order in which they began."""

        async def fetch(connection: Connection) -> list[str]:
            found = await connection.execute("SELECT record FROM sessions ORDER BY number")
            return [str(record) for (record,) in await found.fetchall()]

        return [Session.model_validate_json(record) for record in await self._link.do(fetch)]

    async def _value(self, statement: str) -> Any:
        async def fetch(connection: Connection) -> Any:
            row = await (await connection.execute(statement)).fetchone()
            return None if row is None else row[0]

        return await self._link.do(fetch)

    async def read(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Do some work on the run as it is at one moment; again from the start if the connection is lost."""

        async def at_one_moment(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                await work(connection)

        await self._link.do(at_one_moment)

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()


def as_bytes(case_id: str) -> bytes:
    """An id as the database has it."""
    return case_id.encode(errors="replace")


async def every_result(connection: Connection) -> AsyncIterator[Stored]:
    """The last result of each case that has one, in the order of the input, in the caller's transaction."""
    async with connection.cursor("every_result", binary=True) as cursor:
        await cursor.execute(
            "SELECT line, trace FROM cases WHERE line IS NOT NULL ORDER BY position",
        )
        while rows := await cursor.fetchmany(_FETCHED):
            for row in rows:
                yield Stored(*row)


async def _add_cases(connection: Connection, source: CaseSource) -> None:
    statement = "COPY cases (position, case_id) FROM STDIN"
    async with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for position, case in enumerate(source):
            await copy.write_row((position, as_bytes(case.id)))
    await connection.execute("ANALYZE cases")


def _unlike_seeds(recorded: Manifest, current: Manifest) -> list[str]:
    """Roles whose calls would have another identity, as one runner sends a seed and the other does not."""
    return [
        f"seed of {role} (what the probe of its server found)"
        for role, model in current.models.items()
        if role in recorded.models and recorded.models[role].takes_seed != model.takes_seed
    ]
