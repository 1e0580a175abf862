"""Addresses of servers: whose they are, which proxy leads there, and how much of them is shown."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

_PRIVATE_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10")
)
_PRIVATE_NAMES = (".local", ".localdomain", ".internal", ".lan", ".home.arpa", ".localhost")

_NUMBER = r"(?:0[xX][0-9a-fA-F]*|[0-9]+)"
_NUMERIC = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{0,3}}")
_ENDS_IN_NUMBER = re.compile(rf".*\.{_NUMBER}|{_NUMBER}")

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
    """Message on a server that redirects; shows neither path nor query of the target.

    Args:
        status: Its answer's.
        url: Requested URL.
        location: Target, relative to `url` as in HTTP.
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
        return f"{asked} redirects (status {status}) to another path; name that address instead"
    where = other if same_scheme else f"{urlsplit(target).scheme[:8]}://{other}"
    return (
        f"{asked} redirects (status {status}) to {where}, which was not named, so nothing is sent there; name"
        " that address if it is the right one"
    )


def plain_host(host: str) -> str:
    """A host in the form in which hosts are compared: lower case, no brackets, no dot at the end, ASCII."""
    if not host.isascii():
        # As resolvers and clients write it, for which full-width digits are digits.
        with contextlib.suppress(UnicodeError):
            host = host.encode("idna").decode()
    return host.strip("[]").rstrip(".").lower()


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is by itself, also in forms such as `0x7f.1`; None for a name.

    The resolver of the system takes hexadecimal, octal and short forms of IPv4 for addresses.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host)) if _NUMERIC.fullmatch(host) else None
        except OSError:
            return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address only, without a lookup."""
    address = ip_address(host)
    return host == "localhost" if address is None else address.is_loopback


def is_public(host: str) -> bool:
    """Whether a host may be public: neither this machine nor in a private network, by its name only.

    A name of a single part, such as `gpu01`, is one of the local network.
    """
    address = ip_address(host)
    if address is not None:
        return not (address.is_loopback or any(address in network for network in _PRIVATE_NETWORKS))
    if _ENDS_IN_NUMBER.fullmatch(host):
        # Neither an address nor a name; resolvers differ.
        return True
    return not (host == "localhost" or "." not in host or host.endswith(_PRIVATE_NAMES))


def environment_proxy(url: str) -> str | None:
    """The proxy that the environment names for a URL, as Python's own client reads it; None for none.

    `all_proxy` counts if the variable of the scheme is not set.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if parts.scheme not in ("http", "https") or not proxy:
        return None
    if proxy_bypass(host) or (port and proxy_bypass(f"{host}:{port}")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def proxy_of(url: str) -> str | None:
    """The proxy of a URL; None if requests go there directly, as they always do to this machine."""
    proxy = environment_proxy(url)
    return None if proxy is None or is_loopback(plain_host(urlsplit(url).hostname or "")) else proxy
