"""The people who may sign in to the viewer: a file of names, roles and hashes of tokens, for its owner.

A token is shown once, when it is made. The file has only its scrypt hash, so readers of the file cannot sign
in.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, get_args

from platformdirs import user_config_path
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from cases.formats.json_border import fault, first_fault
from runs.record.audit import Event, record_if_possible
from runs.review.reviews import Moment, Reviewer
from storage.errors import InputError
from storage.private import private_folder, write_private

FILE = "users.json"
"""In the user's configuration folder, where no other file is named."""

Role = Literal["view", "submit", "review", "admin"]
"""On the pages each includes the rights before it: read; the same; save reviews; see assignments, and
 export. `evigraph api` has rights by role, and shows its own runs to `submit`: see `api.callers`."""
ROLES: tuple[Role, ...] = get_args(Role)

_COST = (1 << 14, 8, 5)
"""scrypt's n, r, p; 16 MiB and a fraction of a second. Tokens are random, so this is an extra margin."""
_ID_BYTES, _SECRET_BYTES, _SALT_BYTES, _HASH_BYTES = 6, 24, 16, 32
_PREFIX = "evigraph"


def _one_name(value: str) -> str:
    if "," in value or value.startswith("("):
        raise fault(f"{value!r} is not a valid name: use no commas, and no parenthesis first")
    return value


UserName = Annotated[Reviewer, AfterValidator(_one_name)]
"""A person's name as reviews have it, and lists of reviewers take it."""
_NAME: TypeAdapter[str] = TypeAdapter(UserName)


class User(BaseModel):
    """Someone who may sign in.

    Attributes:
        id: Id of the token; part of it, and not secret.
        salt: Base64.
        scrypt: The hash of the token's secret, base64.
        cost: n, r and p of scrypt.
        added: When the token was made, UTC in ISO 8601.
        expires: From when on it opens nothing; None for never.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: UserName
    role: Role
    id: str
    salt: str
    scrypt: str
    cost: tuple[int, int, int]
    added: Moment
    expires: Moment | None = None

    def expired(self, now: datetime) -> bool:
        return self.expires is not None and datetime.fromisoformat(self.expires) <= now


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    users: tuple[User, ...] = ()


class Users:
    """The users of one file, read again once it has changed. Any thread may call every method."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[tuple[int, int, int], tuple[User, ...]] | None = None

    def all(self) -> tuple[User, ...]:
        """All users in order of addition; empty without a file.

        Raises:
            InputError: The file is open to others, or holds something else.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise InputError(self.path, f"cannot be read: {error.strerror or error}") from None
        version = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = self._read
        if known is None or known[0] != version:
            if found.st_mode & 0o077:
                raise InputError(
                    self.path, "other users of this machine may read or write it", f"chmod 600 {self.path}"
                )
            self._read = known = (version, self._parsed())
        return known[1]

    def get(self, name: str) -> User | None:
        """The user of a name; None where there is none.

        Raises:
            InputError: The file cannot be used.
        """
        return next((one for one in self.all() if one.name == name), None)

    def of_token(self, token: str, now: datetime) -> User | None:
        """Whose a token is; None for nobody's, or one that has expired.

        Raises:
            InputError: The file cannot be used.
        """
        user = self.named_by(token)
        if user is None or user.expired(now):
            return None
        right = hmac.compare_digest(_hashed(_parts(token)[1], user.salt, user.cost), user.scrypt)
        return user if right else None

    def named_by(self, token: str) -> User | None:
        """Whose id a token has, whether its secret is right or not.

        Raises:
            InputError: The file cannot be used.
        """
        id_, _ = _parts(token)
        return next((one for one in self.all() if one.id == id_), None)

    def add(
        self, name: str, role: Role | None, now: datetime, *, days: int | None = None, renew: bool = False
    ) -> tuple[User, str]:
        """Let somebody sign in, or give them a new token in place of the old one.

        Returns:
            The user, and the token, which is kept nowhere.

        Raises:
            InputError: The name is none, is taken, or is not there; or the file cannot be used.
            OSError: It cannot be written.
        """
        try:
            name = _NAME.validate_python(name)
        except ValidationError as error:
            raise InputError("users add", first_fault(error)) from None
        with self._changing() as users:
            before = next((one for one in users if one.name == name), None)
            if renew and before is None:
                raise self._nobody(name, users)
            if not renew:
                taken = next((one.name for one in users if _looks(one.name) == _looks(name)), None)
                if taken is not None:
                    raise InputError(
                        self.path,
                        f"{taken!r} is there already",
                        "--renew gives a new token, and ends the old",
                    )
            chosen = role or (before.role if before is not None else None)
            if chosen is None:
                raise InputError(self.path, f"{name!r} needs a role", f"--role is {', '.join(ROLES)}")
            id_, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
            salt = _base64(secrets.token_bytes(_SALT_BYTES))
            made = User(
                name=name,
                role=chosen,
                id=id_,
                salt=salt,
                scrypt=_hashed(secret, salt, _COST),
                cost=_COST,
                added=_moment(now),
                expires=None if days is None else _moment(now + timedelta(days=days)),
            )
            users[:] = [made if one.name == name else one for one in users] if renew else [*users, made]
        self._note("user_renewed" if renew else "user_added", made)
        return made, f"{_PREFIX}-{id_}-{secret}"

    def remove(self, name: str) -> User:
        """Let somebody sign in no longer; their sessions end.

        Raises:
            InputError: The user is unknown, or the file cannot be used.
            OSError: It cannot be written.
        """
        with self._changing() as users:
            gone = next((one for one in users if one.name == name), None)
            if gone is None:
                raise self._nobody(name, users)
            users.remove(gone)
        self._note("user_removed", gone)
        return gone

    def _note(self, event: Event, user: User) -> None:
        expires = {} if user.expires is None else {"expires": user.expires}
        record_if_possible(self.path.parent, event, name=user.name, role=user.role, **expires)

    def _nobody(self, name: str, users: list[User]) -> InputError:
        known = ", ".join(one.name for one in users) or "none"
        return InputError(self.path, f"no user {name!r}", f"Known: {known}")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[User]]:
        """Everybody, to be changed by one process at a time."""
        if not self.path.parent.is_dir():
            private_folder(self.path.parent)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):
                # Where a file system has no locks, the last one wins.
                fcntl.flock(folder, fcntl.LOCK_EX)
            users = [*self.all()]
            yield users
            content = _Content(users=tuple(users)).model_dump(mode="json", exclude_none=True)
            write_private(self.path, json.dumps(content, indent=2).encode() + b"\n")
        finally:
            os.close(folder)

    def _parsed(self) -> tuple[User, ...]:
        try:
            return _Content.model_validate_json(self.path.read_bytes()).users
        except ValidationError as error:
            raise InputError(self.path, first_fault(error), "It is written by evigraph users") from None
        except OSError as error:
            raise InputError(self.path, f"cannot be read: {error.strerror or error}") from None


def default_file() -> Path:
    """The file of the user's configuration."""
    return user_config_path("evigraph") / FILE


def _looks(name: str) -> str:
    """Names that people take for one another have the same looks."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _parts(token: str) -> tuple[str, str]:
    """Id and secret of a token; of anything else, what no user has."""
    prefix, _, rest = token.strip().partition("-")
    id_, _, secret = rest.partition("-")
    return (id_, secret) if prefix == _PREFIX and id_.isascii() else ("", token)


def _hashed(secret: str, salt: str, cost: tuple[int, int, int]) -> str:
    n, r, p = cost
    # A form may send any length; scrypt's own time does not depend on it.
    given = secret.encode(errors="replace")[:1024]
    # OpenSSL wants room beyond the 128 * r * (n + p) bytes in use.
    room = 256 * r * (n + p) + (1 << 16)
    return _base64(
        hashlib.scrypt(given, salt=base64.b64decode(salt), n=n, r=r, p=p, maxmem=room, dklen=_HASH_BYTES)
    )


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")
