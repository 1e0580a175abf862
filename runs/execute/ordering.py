"""Cases that share demonstrations run near one another, so that a server's prefix cache is of use.

Cases are read in windows. In each window they are sorted by the demonstrations that their labelling prompt
will show, as prompts of the same demonstrations have the same beginning. Results do not depend on the order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from cases.records import Case, InvalidCase
from nodes.evidence.label_evidence import CaseKey, CaseKeys

MIN_WINDOW = 64
MAX_WINDOW = 512
CASES_AHEAD = 4
"""Cases of a window for each case that runs at once."""

PATIENCE_S = 0.5
"""A window that is not sorted by then is begun in input order: loading an embedder takes longer."""

AnyCase = Case | InvalidCase


def window_size(cases_at_once: int) -> int:
    """Cases that are sorted together."""
    return min(MAX_WINDOW, max(MIN_WINDOW, CASES_AHEAD * cases_at_once))


class OrderedCases:
    """Cases window by window, for any number of workers; close it at the end.

    The next window is sorted while this one runs, so memory holds two of them.
    """

    def __init__(self, cases: Iterator[AnyCase], keys: CaseKeys | None, window: int) -> None:
        """Without `keys` the cases come as they are, one at a time."""
        self._cases = cases
        self._keys = keys
        self._size = window
        self._turn = asyncio.Lock()
        self._now: _Window | None = None
        self._next: _Window | None = None

    def __aiter__(self) -> OrderedCases:
        return self

    async def __anext__(self) -> AnyCase:
        if self._keys is None:
            for case in self._cases:
                return case
            raise StopAsyncIteration
        # One worker at a time looks at the window; the others would find it half sorted.
        async with self._turn:
            if self._now is None or not self._now.cases:
                if self._now is not None:
                    # All its cases were taken before it was sorted.
                    self._now.sorting.cancel()
                self._now = self._next or self._read(self._keys)
                self._next = self._read(self._keys) if self._now.cases else None
                await asyncio.wait({self._now.sorting}, timeout=PATIENCE_S)
            self._now.sort_once()
            if not self._now.cases:
                raise StopAsyncIteration
            return self._now.cases.popleft()

    async def aclose(self) -> None:
        sorting = [window.sorting for window in (self._now, self._next) if window is not None]
        for task in sorting:
            task.cancel()
        await asyncio.gather(*sorting, return_exceptions=True)

    def _read(self, keys: CaseKeys) -> _Window:
        cases = deque(islice(self._cases, self._size))
        return _Window(cases, asyncio.create_task(_keys_by_id(keys, cases)))


@dataclass(slots=True)
class _Window:
    """Cases that are left of a window, and the keys of all of them once they are known."""

    cases: deque[AnyCase]
    sorting: asyncio.Task[dict[str, CaseKey]]
    sorted: bool = False

    def sort_once(self) -> None:
        """Sort the rest by key and then by input order; cases that cannot run keep their places."""
        if self.sorted or not self.sorting.done():
            return
        self.sorted = True
        keys = self.sorting.result()
        # Only cases with a key move; a stable sort keeps the input order among equals.
        in_order = iter(
            sorted((case for case in self.cases if case.id in keys), key=lambda case: keys[case.id])
        )
        self.cases = deque(next(in_order) if case.id in keys else case for case in self.cases)


async def _keys_by_id(keys: CaseKeys, cases: Sequence[AnyCase]) -> dict[str, CaseKey]:
    valid = [case for case in cases if isinstance(case, Case)]
    try:
        return dict(zip((case.id for case in valid), await keys(valid), strict=True))
    except Exception:
        # The order is a convenience. Faults are reported for the cases that meet them.
        return {}
