"""Who calls: bearer tokens, what their users may do, and how often."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from api.problems import Refused
from cases.errors import InputError
from viewer.sessions import Attempts
from viewer.users import Users

_AT_ONCE = 2
"""Tokens that are looked at side by side: each takes memory and time on purpose."""
_MOST_KNOWN = 10_000

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

    async def caller(self, token: str, address: str) -> Caller | None:
        """Whose a token is; None for nobody's.

        Args:
            token: As it was sent.
            address: Of the client, whose failed attempts are counted.

        Raises:
            Refused: Nobody's token may be looked at now.
        """


@dataclass(frozen=True, slots=True)
class OneToken:
    """The one token that is printed when the service starts, where it has no users."""

    token: str
    name: str

    async def caller(self, token: str, address: str) -> Caller | None:
        """Whoever has it may do everything."""
        right = hmac.compare_digest(token.encode(errors="replace"), self.token.encode())
        return Caller(self.name, "admin") if right else None


class UserTokens:
    """The tokens of `evigraph users`. To look at one takes a tenth of a second; it is done once."""

    def __init__(self, users: Users, clock: Callable[[], float], now: Callable[[], datetime]) -> None:
        """Nobody has called yet.

        Args:
            users: Who may call.
            clock: Seconds that only grow, for failed attempts.
            now: The time of day, for tokens that expire.
        """
        self._users, self._now = users, now
        self._attempts = Attempts(clock)
        self._known: dict[bytes, tuple[str, str]] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def caller(self, token: str, address: str) -> Caller | None:
        """The user whose token it is, with the role that they have now.

        Raises:
            Refused: Too many attempts of this client have failed, or the list of users cannot be used.
        """
        try:
            return await self._found(token, address)
        except InputError as error:
            raise Refused(503, f"the list of users cannot be used: {error.fault}") from None

    async def _found(self, token: str, address: str) -> Caller | None:
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        if (known := self._known.get(digest)) is not None:
            user = self._users.get(known[0])
            if user is not None and user.id == known[1] and not user.expired(self._now()):
                return Caller(user.name, user.role)
            del self._known[digest]
        if seconds := self._attempts.take(address):
            raise Refused(429, "too many wrong tokens", headers={"Retry-After": str(math.ceil(seconds))})
        async with self._places:
            user = await asyncio.to_thread(self._users.of_token, token, self._now())
        if user is None:
            return None
        self._attempts.succeeded(address)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[digest] = user.name, user.id
        return Caller(user.name, user.role)


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
