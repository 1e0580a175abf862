"""Callers: bearer tokens, their users' rights, and rate limits."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from access.sessions import TokenChecks, TooManyAttempts
from access.users import Users
from api.problems import Refused
from storage.errors import InputError

_MOST_KNOWN = 10_000

Right = Literal["view", "view all", "submit", "review", "cancel all"]
RIGHTS: dict[str, frozenset[Right]] = {
    "view": frozenset({"view", "view all"}),
    "submit": frozenset({"view", "submit"}),
    "review": frozenset({"view", "view all", "review"}),
    "admin": frozenset({"view", "view all", "submit", "review", "cancel all"}),
}
"""Rights of each role: `view` reads runs, one's own unless `view all`; `submit` spends on models."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token a request carries.

    Attributes:
        token: Id of the token, if there are several.
    """

    name: str
    role: str
    token: str = ""

    def may(self, right: Right) -> bool:
        return right in RIGHTS[self.role]

    def may_read(self, submitter: str) -> bool:
        return submitter == self.name or self.may("view all")


class Tokens(Protocol):
    """Knows whose tokens are valid."""

    async def caller(self, token: str, address: str) -> Caller | None:
        """Whose a token is; None for nobody's.

        Failed attempts of the client at `address` are counted.

        Raises:
            Refused: Nobody's token may be looked at now.
        """

    def valid(self, caller: Caller) -> bool:
        """Whether the caller's token is still valid; open streams check it repeatedly, in a thread."""


@dataclass(frozen=True, slots=True)
class OneToken:
    """The one token that is printed when the service starts, where it has no users."""

    token: str
    name: str

    async def caller(self, token: str, address: str) -> Caller | None:
        right = hmac.compare_digest(token.encode(errors="replace"), self.token.encode())
        return Caller(self.name, "admin") if right else None

    def valid(self, caller: Caller) -> bool:
        return True


class UserTokens:
    """The tokens of `evigraph users`. To look at one takes a tenth of a second; it is done once."""

    def __init__(self, users: Users, clock: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._users, self._now = users, now
        self._checks = TokenChecks(users, clock, now)
        self._known: dict[bytes, Caller] = {}

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
            if self._is_valid(known):
                return known
            del self._known[digest]
        try:
            user = await asyncio.to_thread(self._checks.user, token, address)
        except TooManyAttempts as error:
            wait = {"Retry-After": str(math.ceil(error.seconds))}
            raise Refused(429, "too many wrong tokens", headers=wait) from None
        if user is None:
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[digest] = found = Caller(user.name, user.role, user.id)
        return found

    def valid(self, caller: Caller) -> bool:
        with contextlib.suppress(InputError):
            return self._is_valid(caller)
        return False

    def _is_valid(self, caller: Caller) -> bool:
        user = self._users.get(caller.name)
        return user is not None and user.id == caller.token and not user.expired(self._now())


class Rate:
    """A bucket of requests for each user, filled at a steady rate. Any thread may call every method."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        """All buckets are full.

        `per_minute` requests of a user may also come at once, after a minute without any.
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
