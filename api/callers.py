"""Who calls: bearer tokens, what their users may do, and how often."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

Right = Literal["view", "submit", "review"]
RIGHTS: dict[str, frozenset[Right]] = {
    "view": frozenset({"view"}),
    "submit": frozenset({"view", "submit"}),
    "review": frozenset({"view", "review"}),
    "admin": frozenset({"view", "submit", "review"}),
}
"""What each role may do: read; spend on models; save reviews; all of it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token a request carries.

    Attributes:
        name: Of the user, as reviews and the audit log have it.
        role: One of `RIGHTS`.
    """

    name: str
    role: str

    def may(self, right: Right) -> bool:
        """Whether the user's role has a right."""
        return right in RIGHTS[self.role]


class Tokens(Protocol):
    """Knows whose tokens are valid."""

    async def caller(self, token: str) -> Caller | None:
        """Whose a token is; None for nobody's."""


@dataclass(frozen=True, slots=True)
class OneToken:
    """The one token that is printed when the service starts, where it has no users."""

    token: str
    name: str

    async def caller(self, token: str) -> Caller | None:
        """Whoever has it may do everything."""
        right = hmac.compare_digest(token.encode(errors="replace"), self.token.encode())
        return Caller(self.name, "admin") if right else None


class Rate:
    """A bucket of requests for each user, filled at a steady rate. Any thread may call every method."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        """All buckets are full.

        Args:
            per_minute: Requests of one user; as many may come at once after a minute without any.
            clock: Seconds that only grow.
        """
        self._size = float(per_minute)
        self._per_second = per_minute / 60
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, name: str) -> float:
        """Count a request of a user.

        Returns:
            Seconds to wait; 0 where it may be served.
        """
        with self._lock:
            now = self._clock()
            left, at = self._left.get(name, (self._size, now))
            left = min(self._size, left + (now - at) * self._per_second)
            served = left >= 1
            self._left[name] = (left - 1 if served else left, now)
            return 0.0 if served else (1 - left) / self._per_second
