"""The address of a database that a run shares: what is connected to, and what may be shown and kept of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from serving.gate import demand_host, public_hosts
from serving.journal import JournalError

_SCHEMES = ("postgresql", "postgres")
_KEPT = ("channel_binding", "gssencmode", "host", "require_auth", "target_session_attrs")
"""Parameters that say where a database is and how its connection is kept safe, beside those of TLS."""

_SECRET = "sslpassword"  # noqa: S105 - the name of a parameter
_LOCAL = "localhost"


class StoreError(JournalError):
    """A shared database that cannot be used, read or written, in one line."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where a run is shared.

    Attributes:
        url: As the user gave it, for the driver; it may hold a password.
        name: Without user and password, for people and for `run.json`; the parameters of TLS are kept.
        hosts: Those that see texts of cases; `localhost` for a socket of this machine.
    """

    url: str = field(repr=False)
    name: str
    hosts: tuple[str, ...]

    @property
    def urls(self) -> list[str]:
        """The hosts as addresses."""
        return [f"postgresql://{host}" for host in self.hosts]

    @property
    def public_hosts(self) -> list[str]:
        """Those hosts that need the user's word where there is no policy."""
        return public_hosts(self.urls)

    def demand_allowed(self) -> None:
        """Ask the gate before anything is sent.

        Raises:
            PolicyError: A policy forbids a host, or the user has not allowed it.
        """
        for url in self.urls:
            demand_host(url, f"store {self.name}")


def parse_store(text: str) -> StoreAddress:
    """Read `postgresql://[USER@]HOST[:PORT]/DATABASE[?PARAMETERS]`, as libpq has it.

    Raises:
        StoreError: It is none, or leads to another host than the one that it names; no part of a text that
            may hold a password is shown.
    """
    form = "write postgresql://[USER@]HOST[:PORT]/DATABASE"
    try:
        parts = urlsplit(text)
        parameters = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise StoreError(f"--store: no address of a database; {form}") from None
    if parts.scheme not in _SCHEMES or parts.fragment:
        raise StoreError(f"--store: no address of a PostgreSQL database; {form}, special characters as %XX")
    if any(name == "hostaddr" for name, _ in parameters):
        raise StoreError(f"--store: hostaddr would lead to another host than the one that is named; {form}")
    database = unquote(parts.path.removeprefix("/"))
    named = [one for one in parts.netloc.rpartition("@")[2].split(",") if one]
    named += [value for name, value in parameters if name == "host"]
    if not named or not database:
        raise StoreError(f"--store: it names no {'host' if not named else 'database'}; {form}")
    place = parts.netloc.rpartition("@")[2]
    kept = [
        (name, value)
        for name, value in parameters
        if name in _KEPT or (name.startswith("ssl") and name != _SECRET)
    ]
    query = f"?{urlencode(kept, safe='/')}" if kept else ""
    shown = f"postgresql://{place}/{quote(database)}{query}"
    return StoreAddress(text, shown, tuple(dict.fromkeys(map(_host, named))))


def _host(place: str) -> str:
    """A host without its port."""
    if unquote(place).startswith(("/", "@")):
        return _LOCAL
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.rpartition(":")[0] if ":" in place and place.count(":") == 1 else place


def demand_driver() -> None:
    """Refuse a store where what asks it is not installed.

    Raises:
        StoreError: Says what to install.
    """
    if find_spec("psycopg") is None or find_spec("alembic") is None:
        raise StoreError("--store needs psycopg and alembic: pip install 'evigraph[postgresql]'")
