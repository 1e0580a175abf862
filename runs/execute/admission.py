"""Which cases a budget lets begin, so that it is used for cases that come to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from runs.execute.rehearsal import REHEARSED, Forecast
from serving.protocol.budget import Budget, BudgetSpent, Spend


class Admission:
    """Lets a case begin once its remaining maximum fits next to the cases in progress.

    A case's maximum is the forecast maximum of all its calls. That is several times its actual use, so next
    to at most as many cases as have ended, the highest use of one of them counts instead. Nothing has to be
    exact: the budget itself refuses a call that might exceed it.
    """

    def __init__(
        self,
        budget: Budget,
        forecast: Forecast | None,
        answered: Mapping[str, Spend] | None = None,
        ended: Collection[str] = (),
    ) -> None:
        """For one batch.

        `forecast` is None if the use of a case is unknown; `answered` has the use of stored calls, by case.
        """
        self._budget = budget
        self._forecast = forecast
        self._answered = answered or {}
        self._largest: Spend | None = None
        self._ended = 0
        for case_id in self._answered.keys() & ended:
            self._count(self._answered[case_id])
        self._open: set[str] = set()
        self._changed = asyncio.Condition()
        self._spent: BudgetSpent | None = None

    async def begin(self, case_id: str, *, wait: bool = True) -> bool:
        """Wait until the case may begin.

        Without `wait`, False is returned where the case has to wait for others.

        Raises:
            BudgetSpent: It may not, whatever the cases under way turn out to use; or the budget has already
                ended one.
        """
        if not self._budget.limited:
            return True
        async with self._changed:
            while not self._fits(case_id):
                if self._spent is None and not self._open:
                    self._spent = BudgetSpent(self._explain(case_id))
                if self._spent is not None:
                    raise self._spent
                if not wait:
                    return False
                await self._changed.wait()
            if self._spent is not None:
                raise self._spent
            self._open.add(case_id)
        return True

    async def end(self, case_id: str, *, whole: bool, spent: BudgetSpent | None = None) -> None:
        """A case is no longer in progress.

        `whole` is whether all its calls were made; after a `spent`, no other case begins.
        """
        if not self._budget.limited:
            return
        async with self._changed:
            self._open.discard(case_id)
            used = self._budget.forget(case_id)
            if whole and case_id not in self._answered:
                self._count(used)
            self._spent = self._spent or spent
            self._changed.notify_all()

    def _count(self, used: Spend) -> None:
        self._ended += 1
        self._largest = used if self._largest is None else self._largest.largest(used)

    def _expected(self) -> Spend | None:
        """Expected use of a case; raised by one in progress that has used more."""
        known = self._largest
        if self._forecast is not None and self._ended < REHEARSED:
            known = self._forecast.spend.largest(known or Spend())
        if known is None:
            return None
        for case_id in self._open:
            known = known.largest(self._budget.used_by(case_id))
        return known

    def _left(self, case_id: str, expected: Spend) -> Spend:
        answered = self._answered.get(case_id, Spend())
        return expected.minus(answered).minus(self._budget.used_by(case_id)).largest(Spend())

    def _fits(self, case_id: str) -> bool:
        expected = self._expected()
        if self._largest is None and not self._open:
            # No more than an estimate says that it is too large, so one case may try.
            return True
        likely = expected or Spend()
        if self._forecast is not None:
            most = self._forecast.most
            # Where the server counts more tokens than the forecast, what all calls may use is too little.
            trusted = most == most.largest(likely)
            twice = most if self._ended >= REHEARSED else most.plus(most)
            if trusted and self._allows(case_id, twice):
                return True
        # Short cases end first, so those that have ended are evidence for as many others, not for more.
        return len(self._open) <= self._ended and self._allows(case_id, likely)

    def _allows(self, case_id: str, expected: Spend) -> bool:
        needed = self._left(case_id, expected)
        for other in self._open:
            needed = needed.plus(self._left(other, expected))
        return self._budget.allows(needed.plus(self._margin()))

    def _margin(self) -> Spend:
        """A call reserves more than it uses, so this much has to be left at the last one of a case."""
        largest = self._budget.largest_call
        return largest if self._forecast is None else largest.largest(self._forecast.largest_call)

    def _explain(self, case_id: str) -> str:
        expected = self._expected() or Spend()
        return self._budget.explain(self._left(case_id, expected).plus(self._margin()), "case")
