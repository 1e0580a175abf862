"""Signed-in users: expiring sessions in one server's memory, and a limit on failed attempts."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from access.users import ROLES, Role, User, Users
from storage.errors import InputError

IDLE = 30 * 60.0
"""Seconds without a request after which a session ends."""
LONGEST = 12 * 3600.0
"""Seconds after which it ends however much it is used."""
ATTEMPTS = 10
WINDOW = 300.0
"""So many attempts with the id of one token may fail from one address within so many seconds."""
_MOST_COUNTED = 10_000
_AT_ONCE = 2
"""Tokens that are checked side by side: each takes memory and time on purpose."""

End = Literal["signed out", "idle", "too long", "removed", "renewed", "expired", "the server has ended"]


@dataclass(frozen=True, slots=True)
class Person:
    """A signed-in user.

    Attributes:
        name: As the list of users has it.
        session: Tells their sessions apart in the audit log; it opens nothing.
        lasts: Whether the session is still valid, for streams that outlast their request.
    """

    name: str
    role: Role
    session: str
    lasts: Callable[[], bool] = field(default=lambda: True, compare=False, repr=False)

    def may(self, role: Role) -> bool:
        """Whether they have a role's rights."""
        return ROLES.index(self.role) >= ROLES.index(role)


_signed_in: ContextVar[Person | None] = ContextVar("signed_in", default=None)


def signed_in() -> Person | None:
    """The user of the current request; None if sign-in is off."""
    return _signed_in.get()


def session_fact() -> dict[str, str]:
    """The session for a line of the audit log: a name that comes with one was proven by a token."""
    person = signed_in()
    return {} if person is None else {"session": person.session}


def sign_in_for_request(person: Person | None) -> Callable[[], None]:
    """Answer a request for a person, in this task and in the threads that it starts; what ends that."""
    token = _signed_in.set(person)
    return lambda: _signed_in.reset(token)


@dataclass(slots=True)
class _Session:
    user: str
    token_id: str
    label: str
    begun: float
    used: float


class Sessions:
    """All sessions of a server. Every method may be called from any thread."""

    def __init__(
        self,
        users: Users,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        ended: Callable[[Person, End], None],
    ) -> None:
        self._users = users
        self._clock = clock
        self._now = now
        self._ended = ended
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def begin(self, user: User) -> tuple[str, Person]:
        """The key of a new session, of which no more than the hash is kept, and who has it."""
        key = secrets.token_urlsafe(32)
        at = self._clock()
        with self._lock:
            self._sessions[_hashed(key)] = _Session(user.name, user.id, _label(key), at, at)
        return key, Person(user.name, user.role, _label(key))

    def person(self, key: str | None, *, use: bool = True) -> Person | None:
        """Whose session a key is; None where there is none, or it has ended.

        `use` is whether the request is a person's; a page's own requests do not keep a session open.

        Raises:
            InputError: The list of users cannot be used.
        """
        if key is None:
            return None
        hashed = _hashed(key)
        with self._lock:
            session = self._sessions.get(hashed)
        if session is None:
            return None
        user = self._users.get(session.user)
        why = self._why_over(session, user)
        if why is not None or user is None:
            self._end(hashed, user.role if user is not None else "view", why or "removed")
            return None
        if use:
            session.used = self._clock()
        return Person(user.name, user.role, session.label, lambda: self._lasts(key))

    def _lasts(self, key: str) -> bool:
        with contextlib.suppress(InputError):
            return self.person(key, use=False) is not None
        return False

    def end(self, key: str | None) -> None:
        if key is not None:
            self._end(_hashed(key), "view", "signed out")

    def sweep(self) -> None:
        """End the sessions that nobody came back to.

        Raises:
            InputError: The list of users cannot be used.
        """
        for hashed, session in [*self._sessions.items()]:
            why = self._why_over(session, self._users.get(session.user))
            if why is not None:
                self._end(hashed, "view", why)

    def close(self) -> None:
        for hashed in [*self._sessions]:
            self._end(hashed, "view", "the server has ended")

    def _why_over(self, session: _Session, user: User | None) -> End | None:
        at = self._clock()
        if user is None:
            return "removed"
        if user.id != session.token_id:
            return "renewed"
        if user.expired(self._now()):
            return "expired"
        if at - session.used >= IDLE:
            return "idle"
        return "too long" if at - session.begun >= LONGEST else None

    def _end(self, hashed: str, role: Role, why: End) -> None:
        with self._lock:
            session = self._sessions.pop(hashed, None)
        if session is not None:
            self._ended(Person(session.user, role, session.label), why)


class TooManyAttempts(Exception):
    """A token is not checked now; `seconds` later it may be."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class TokenChecks:
    """Finds the user of a token, and limits wrong ones. May be called from any thread."""

    def __init__(self, users: Users, clock: Callable[[], float], now: Callable[[], datetime]) -> None:
        self._users, self._now = users, now
        self._attempts = Attempts(clock)
        self._places = threading.Semaphore(_AT_ONCE)

    def user(self, token: str, address: str) -> User | None:
        """The user of a token; None if it is nobody's, or has expired.

        Attempts count by address and by the id of the token: clients behind one proxy have one address.

        Raises:
            TooManyAttempts: Too many tokens with this id were wrong.
            InputError: The list of users cannot be used.
        """
        named = self._users.named_by(token)
        tried = f"{address} {'' if named is None else named.id}"
        if seconds := self._attempts.take(tried):
            raise TooManyAttempts(seconds)
        if named is None:
            # Hashing tokens without a user would delay everybody else; an id is not secret.
            return None
        with self._places:
            user = self._users.of_token(token, self._now())
        if user is not None:
            self._attempts.succeeded(tried)
        return user


class Attempts:
    """Failed attempts to sign in, by their shared key. May be called from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failed: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def take(self, tried: str) -> float:
        """Count an attempt before it is looked at, so that many at once gain nothing.

        Returns:
            Seconds to wait; 0 where the attempt may be made.
        """
        with self._lock:
            at = self._clock()
            if len(self._failed) >= _MOST_COUNTED:
                # Addresses cost nothing in some networks, and memory does here.
                self._failed = {
                    one: times for one, times in self._failed.items() if times and at - times[-1] < WINDOW
                }
                if len(self._failed) >= _MOST_COUNTED:
                    return WINDOW
            times = self._failed.setdefault(tried, deque())
            while times and at - times[0] >= WINDOW:
                times.popleft()
            if len(times) >= ATTEMPTS:
                return times[0] + WINDOW - at
            times.append(at)
            return 0.0

    def succeeded(self, tried: str) -> None:
        with self._lock:
            self._failed.pop(tried, None)


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def _label(key: str) -> str:
    return _hashed(f"label {key}")[:8]
