"""Addresses of servers: how much of them is shown."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

_MAX_SHOWN = 200
"""Characters of a host that a server names; a longer one is none."""

# Up to the last @, as passwords may have one too.
_LOGIN = re.compile(r"(?<=://)\S*@")
_QUERY = re.compile(r"(://[^\s?#]*)[?#]\S*")


def redacted(text: str) -> str:
    """A text without what may be secret in its addresses: user and password, query and fragment."""
    return _QUERY.sub(r"\1?***", _LOGIN.sub("***@", text))


def host_of(url: str) -> str:
    """Host and port of an address, without what may be secret in it; empty if it has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if ":" in host:
        host = f"[{host}]"
    return f"{host}:{port}"[:_MAX_SHOWN] if host and port else host[:_MAX_SHOWN]


def redirect_fault(status: int, url: str, location: str | None) -> str:
    """What to say of a server that sends a request on; neither path nor query of the target is shown.

    Args:
        status: Its answer's.
        url: What it was asked.
        location: Where it sends, relative to `url` as HTTP has it.
    """
    try:
        target = urljoin(url, location or "")
        same_scheme = urlsplit(target).scheme == urlsplit(url).scheme
    except ValueError:
        target, same_scheme = "", True
    asked, other = host_of(url), host_of(target) if location else ""
    if not other:
        return f"{asked} redirects (status {status}), to no address"
    if asked == other and same_scheme:
        return f"{asked} redirects (status {status}) to another path of its own; name that address instead"
    where = other if same_scheme else f"{urlsplit(target).scheme[:8]}://{other}"
    return (
        f"{asked} redirects (status {status}) to {where}, which was not named, so nothing is sent there; name"
        " that address if it is the right one"
    )
