"""Cases on the workers of a cluster: handed out one by one, and begun again where a worker is lost.

A worker says each reply at once, and it is stored before the case comes to its end. So a case that begins
again on another worker does so on the replies that are stored. Ray Data recovers whole blocks of rows: a
reply that is paid for in the middle of a row would be asked for again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from cases.records import Case
from cases.texts import plural
from nodes.core.failure import NodeFailure
from runs.execute.case_run import CaseResult, failed_case
from runs.on_ray.cluster import Cluster, connect, disconnect
from runs.on_ray.member import Lost, Member
from runs.on_ray.worker import Work
from runs.on_ray.workforce import Workforce
from runs.review.reviews import Review
from serving.journal.journal import Journal
from serving.policy.traffic import count
from serving.protocol.budget import BudgetSpent
from serving.protocol.errors import CallError
from serving.requests.client import ModelClient
from serving.requests.relay import RelayMessage

MAX_LOSSES = 3
"""A case that was under way on so many workers when they were lost fails: it may be what ends them."""


class RayCases(Workforce):
    """Runs cases on the workers of a cluster.

    Attributes:
        processor_seconds: Of the workers, in their cases so far.
    """

    def __init__(self, where: Cluster, work: bytes, report: Callable[[str], None]) -> None:
        """Nothing is requested yet.

        `work` is a pickled `Work`; this process is connected to the cluster.
        """
        super().__init__(where, work, report)
        self.processor_seconds = 0.0
        self._results: tuple[str, ...] = ()
        self._cases_each = 1
        self._alone = asyncio.Lock()

    def start(self, client: ModelClient, journal: Journal, results: Iterable[str], cases_each: int) -> None:
        """Take the batch's client and journal, and make them available to workers.

        `client` counts, and asks nothing; `results` are fields of the line of a case that failed with its
        workers.
        """
        self._results, self._cases_each = tuple(results), cases_each
        self.begin(client, journal)

    async def __call__(self, case: Case, review: Review | None) -> CaseResult:
        """Run a case on one worker after the other, until one has come to its end.

        Raises:
            BudgetSpent, JournalError: As of a case in this process.
            CallError: No worker is left, or a service denies access.
        """
        losses = 0
        while losses < MAX_LOSSES:
            # The last attempt is made while no other such case is under way, so that the guilty one is found.
            last: contextlib.AbstractAsyncContextManager[None] = (
                self._alone if losses == MAX_LOSSES - 1 else contextlib.nullcontext()
            )
            async with last:
                try:
                    return await self._run_once(case, review)
                except Lost:
                    losses += 1
        failure = NodeFailure(
            "internal", f"{plural(MAX_LOSSES, 'worker')} of Ray were lost while this case was under way"
        )
        return failed_case(case, failure, self._results)

    async def _run_once(self, case: Case, review: Review | None) -> CaseResult:
        member = await self._free_member()
        outcome: asyncio.Future[CaseResult] = asyncio.get_running_loop().create_future()
        member.under_way[case.id] = outcome
        member.say("case", case, review)
        try:
            return await outcome
        finally:
            member.under_way.pop(case.id, None)
            self.changed.set()

    async def _free_member(self) -> Member:
        """The one with the fewest cases; waits for one that has room."""
        while True:
            self.raise_failure()
            usable = [
                one
                for one in self.members
                if one.widths is not None and len(one.under_way) < self._cases_each
            ]
            if usable:
                return min(usable, key=lambda one: len(one.under_way))
            await self.wait_for_change()

    def _hear_of_case(self, member: Member, message: RelayMessage) -> None:
        match message:
            case ("ended", case_id, result, sent, seconds):
                for address, traffic in sent.items():
                    count(address, traffic)
                self.processor_seconds += seconds
                self._settle(member, case_id, result)
            case ("spent", case_id, why):
                self._settle(member, case_id, BudgetSpent(why))
            case ("denied", case_id, why):
                self._settle(member, case_id, CallError("auth", why))
            case ("broken", case_id, why):
                self._settle(member, case_id, RuntimeError(f"case {case_id} on {member.place}: {why}"))
            case _:
                raise AssertionError(message[0])

    def _settle(self, member: Member, case_id: str, outcome: CaseResult | Exception) -> None:
        waiting = member.under_way.get(case_id)
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, Exception):
            waiting.set_exception(outcome)
            return
        assert self._client is not None
        calls = (call for line in outcome.trace for call in line.get("calls", ()))
        self._client.usage.replayed += sum(call["replayed"] for call in calls)
        waiting.set_result(outcome)


@asynccontextmanager
async def cases_on_ray(
    where: Cluster, work: Work, stop: asyncio.Event, report: Callable[[str], None]
) -> AsyncIterator[RayCases]:
    """Connect to a cluster, or start one on this machine, and get workers ready.

    Raises:
        RunError: The cluster cannot be reached, or a worker cannot run the cases.
        PolicyError: No text may go to one of its nodes.
    """
    owned = connect(where)
    try:
        if owned and where.workers is None:
            where = Cluster(where.address, os.cpu_count() or 1)
        cases = RayCases(where, pickle.dumps(work), report)
        try:
            await cases.open(stop)
            yield cases
        finally:
            await cases.close()
    finally:
        disconnect()
