"""A file that lists the servers of a model, a URL a line; it is read again while a run goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from serving.addresses import redacted
from serving.errors import ModelError
from serving.keys import check_address

logger = logging.getLogger("evigraph.serving")

SCHEME = "file:"
"""Before the path, where a model's string has an address otherwise."""

LOOK_S = 1.0
"""Between two looks at a file."""

_MAX_BYTES = 2**20


def read_endpoints(path: Path, variable: str) -> tuple[str, ...]:
    """The addresses in a file, in its order; blank lines, and what follows a #, count for nothing.

    Args:
        path: Of the file.
        variable: Where a key belongs, which must not stand in an address.

    Raises:
        ModelError: It cannot be read, lists none, or a line is no address.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        fault = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ModelError(f"endpoint file {path}: {fault}; list one http://HOST:8000/v1 a line") from None
    found: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        url = line.partition(" #")[0].strip()
        if not url or url.startswith("#"):
            continue
        where = f"endpoint file {path}, line {number}"
        check_address(url, where, variable)
        if not url.startswith(("http://", "https://")) or "," in url or " " in url:
            raise ModelError(f"{where}: {redacted(url)!r} is no address such as http://HOST:8000/v1")
        found[url.rstrip("/")] = None
    if not found:
        raise ModelError(f"endpoint file {path} lists no server; list one http://HOST:8000/v1 a line")
    return tuple(found)


class Listed(Protocol):
    """What has an address."""

    @property
    def endpoint(self) -> str:
        """As the file has it."""


Server = TypeVar("Server", bound=Listed)


class ListedServers(Generic[Server]):
    """The servers of one model, as the file lists them now.

    Attributes:
        servers: Those that requests may go to.
        changed: Set, and replaced by another, as soon as they are others.
    """

    def __init__(
        self,
        path: Path,
        variable: str,
        admit: Callable[[str], Awaitable[Server]],
        servers: Iterable[Server],
    ) -> None:
        """Begin with the servers of the start.

        Args:
            path: Of the file.
            variable: Environment variable of the servers' key.
            admit: Makes an added server ready; raises a ModelError for one that may not be asked.
            servers: Those that the file listed at the start.
        """
        self.servers = tuple(servers)
        self.changed = asyncio.Event()
        self._path, self._variable, self._admit = path, variable, admit
        self._noted = ""
        self._refused: dict[str, str] = {}

    async def watch(self) -> None:
        """Follow the file until cancelled. A file that cannot be read changes nothing."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Read the file once."""
        try:
            listed = await asyncio.to_thread(read_endpoints, self._path, self._variable)
        except ModelError as error:
            if str(error) != self._noted:
                self._noted = str(error)
                logger.warning("%s; the servers stay as they are", error)
            return
        self._noted = ""
        known = {server.endpoint: server for server in self.servers}
        self._refused = {url: fault for url, fault in self._refused.items() if url in listed}
        now: list[Server] = []
        for url in listed:
            try:
                now.append(known.get(url) or await self._admit(url))
            except ModelError as error:
                if self._refused.get(url) != str(error):
                    self._refused[url] = str(error)
                    logger.warning("%s: %s is left out: %s", self._path, url, error)
        if not now or [one.endpoint for one in now] == [*known]:
            return
        added = [one.endpoint for one in now if one.endpoint not in known]
        gone = [url for url in known if url not in {one.endpoint for one in now}]
        for what, urls in (("added", added), ("taken away", gone)):
            if urls:
                logger.warning("%s: %s: %s", self._path, what, ", ".join(urls))
        self.servers = tuple(now)
        self.changed.set()
        self.changed = asyncio.Event()
