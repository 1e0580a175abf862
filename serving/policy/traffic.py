"""How many requests this process, or a task of it, has sent where, and how many bytes of text; no texts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import NamedTuple

from serving.protocol.addresses import host_of


class Traffic(NamedTuple):
    """Traffic to and from a host.

    Attributes:
        requests: Those that failed among them.
        replies: Samples, of which a request may bring several.
        sent: Bytes of the texts that were sent, as UTF-8.
        received: The same of those that came back.
    """

    requests: int = 0
    replies: int = 0
    sent: int = 0
    received: int = 0

    def plus(self, other: Traffic) -> Traffic:
        return Traffic(*(one + more for one, more in zip(self, other, strict=True)))

    def minus(self, other: Traffic) -> Traffic:
        """Difference to another count, at least zero."""
        return Traffic(*(max(0, one - less) for one, less in zip(self, other, strict=True)))


_of_process: dict[str, Traffic] = {}
_adding = threading.Lock()
_by_host: ContextVar[dict[str, Traffic]] = ContextVar("by_host", default=_of_process)


def count_apart() -> None:
    """From now on, count traffic of this task and its children separately."""
    _by_host.set({})


def size(texts: Iterable[str]) -> int:
    """Bytes of texts as UTF-8."""
    return sum(len(text.encode(errors="replace")) for text in texts)


def count(address: str, traffic: Traffic) -> None:
    """Add traffic to an address, from any thread; a provider's name means its own service."""
    host = host_of(address) or address
    counts = _by_host.get()
    with _adding:
        counts[host] = counts.get(host, Traffic()).plus(traffic)


def so_far() -> dict[str, Traffic]:
    """By host, since the process began, or since `count_apart`."""
    return dict(_by_host.get())


def since(before: Mapping[str, Traffic], now: Mapping[str, Traffic]) -> dict[str, Traffic]:
    """Traffic between two counts, without unused hosts."""
    found = {host: traffic.minus(before.get(host, Traffic())) for host, traffic in now.items()}
    return {host: traffic for host, traffic in found.items() if any(traffic)}
