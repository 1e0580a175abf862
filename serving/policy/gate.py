"""The one gate that texts of cases pass on their way out of this process.

A process is bound by everything it has opened: the policies of a run's cases and of every run folder. All
code that sends asks here first. While a policy is held Python's own audit events are a second wall: no name
is looked up and no connection begun that it does not allow, whatever library does it.

A process serves one user, so its state is global.
"""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from serving.policy.policy import (
    FILE,
    Action,
    HeldPolicy,
    NotScanned,
    PolicyError,
    find_policies,
    load_policy,
)
from serving.protocol.addresses import ip_address, is_loopback, is_public, plain_host, proxy_of, redacted
from serving.protocol.errors import ModelError
from serving.protocol.model_name import ModelName
from storage.url_names import name_of


@dataclass(slots=True)
class _State:
    """State of this process.

    Attributes:
        chosen: The policy that the user named, which takes the place of those that would be found.
        any_host: Whether the user allows hosted models for data without a policy.
        hosts: Public hosts that a run without a policy has been allowed.
        passed: Hosts that have been found allowed.
        routes: The proxy, if any, of each origin that has been found allowed together with it.
        looked_up: The names that were looked up, by the addresses that they led to.
        listens: The host on which pages are served to others.
        cases: Case files, with their keys, whose texts this process may send.
    """

    held: dict[str, HeldPolicy] = field(default_factory=dict)
    chosen: HeldPolicy | None = None
    any_host: bool = False
    hosts: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    routes: dict[str, str | None] = field(default_factory=dict)
    looked_up: dict[str, set[str]] = field(default_factory=dict)
    listens: str | None = None
    cases: dict[tuple[tuple[Path, ...], tuple[Path, ...]], None] = field(default_factory=dict)
    walled: bool = False

    def forget_allowed(self) -> None:
        self.passed.clear()
        self.routes.clear()

    def fault_of_host(self, host: str) -> str:
        """Why a policy lets no text go to a host; empty if all allow it."""
        return next(filter(None, (policy.fault_of_host(host) for policy in self.held.values())), "")


_state = _State()


def choose(policy: str | None, *, allow_hosted: bool) -> None:
    """Record the user's choice of policy for this command.

    Raises:
        PolicyError: The policy cannot be read.
    """
    _state.chosen = None if policy is None else load_policy(policy)
    _state.any_host = allow_hosted
    hold([_state.chosen] if _state.chosen else [])


def hold_for(
    paths: Iterable[Path | str], recorded: Iterable[HeldPolicy] = (), hosts: Iterable[str] = ()
) -> tuple[HeldPolicy, ...]:
    """Hold the policy of some data: the run's recorded one, else the user's, else the one found.

    Args:
        paths: Case files, and all other files whose text may be sent. Only URLs of case files can have a
            policy next to them.
        recorded: The policies that a run began with.
        hosts: The public hosts that it was allowed without one.

    Raises:
        PolicyError: A policy cannot be read, or the user names another than the recorded one.
    """
    policies = tuple(recorded)
    chosen = _state.chosen
    if policies and chosen is not None and chosen.sha256 not in {one.sha256 for one in policies}:
        raise PolicyError(
            f"the run is held to policy {policies[0].rules.name!r} ({policies[0].origin}) since it began;"
            " leave --policy out, or start a new run"
        )
    if not policies:
        policies = (
            (chosen,)
            if chosen is not None
            else find_policies(path for path in paths if isinstance(path, Path))
        )
    hold(policies)
    _state.hosts.update(hosts)
    return policies


def hold(policies: Iterable[HeldPolicy]) -> None:
    """Be bound by further policies, for as long as the process lives.

    Raises:
        PolicyError: Pages are being served to others, and one forbids it.
    """
    for policy in policies:
        if policy.sha256 in _state.held:
            continue
        _state.held[policy.sha256] = policy
        _state.forget_allowed()
        _remember_lookups()
        if not _state.walled:
            # It cannot be taken away again, and costs time at every event, so it comes with the first policy.
            sys.addaudithook(_wall)
            _state.walled = True
    if _state.listens is not None:
        demand("view_from_other_hosts")


def release() -> None:
    """Be bound by nothing, for the next test."""
    global _state
    _state = _State(walled=_state.walled)


def demand(action: Action) -> None:
    """Ask before something is done with texts.

    Raises:
        PolicyError: A policy forbids it.
    """
    _raise_first(policy.fault_of(action) for policy in _state.held.values())


def take_cases(cases: Sequence[Path], keys: Sequence[Path] = ()) -> None:
    """Know the cases whose texts may be sent: a policy may want them scanned for public hosts."""
    if cases:
        _state.cases[tuple(cases), tuple(keys)] = None
        # Earlier permissions were for other cases.
        _state.forget_allowed()


def demand_scanned(cases: Sequence[Path], keys: Sequence[Path], host: str) -> None:
    """Ask before texts of cases go where a host outside of private networks may see them.

    Raises:
        NotScanned: A policy wants them scanned first.
        InputError: A file cannot be read.
    """
    wanting = [policy for policy in _state.held.values() if policy.rules.scan_before_hosted]
    if not wanting:
        return
    # Readers of case files take longer to import than most commands take.
    from cases.load import find_cases
    from cases.scans import unscanned

    missing = unscanned(find_cases(cases, keys))
    if not missing:
        return
    command = shlex.join(
        ["evigraph", "scan", *map(name_of, cases), *(f"--key={name_of(key)}" for key in keys)]
    )
    raise NotScanned(wanting[0].fault_of_scan(host, missing, command))


def demand_listening(host: str) -> None:
    """Ask before pages are served on an address; runs that are opened later have to allow it, too.

    Raises:
        PolicyError: A policy forbids it.
    """
    host = plain_host(host)
    if not is_loopback(host):
        demand("view_from_other_hosts")
        _state.listens = host


def demand_model(name: ModelName, addresses: Iterable[str]) -> None:
    """Check before anything is sent to a model, even a check of its server.

    Raises:
        PolicyError: A policy forbids it, or no policy is known and the user has not allowed hosted models.
    """
    _raise_first(policy.fault_of_provider(name.provider) for policy in _state.held.values())
    if name.batched:
        demand("batches")
    for address in addresses:
        demand_route(address, f"model {redacted(str(name))!r}")


def demand_route(url: str, what: str, *, consent: bool = True) -> str | None:
    """Ask before a request is sent to a URL, about its host and about the proxy that leads there.

    Every client that can use a proxy takes it from here, and none from the environment.

    Returns:
        The proxy; None where the request goes to the host directly.

    Raises:
        PolicyError: A policy forbids the host or the proxy, or the user has not allowed it.
        ModelError: The proxy is of a kind that cannot be used.
    """
    origin = "/".join(url.split("/", 3)[:3])
    if consent and origin in _state.routes:
        return _state.routes[origin]
    demand_host(url, what, consent=consent)
    proxy, host = proxy_of(url), host_name(url)
    if proxy is not None:
        without = f"name {host} in no_proxy to go there without it"
        if not proxy.startswith(("http://", "https://")):
            raise ModelError(
                f"{what}: the proxy of {host} is {redacted(proxy)}, and only http:// and https:// can be"
                f" used; {without}"
            )
        _demand(host_name(proxy), what, consent, f"; it is the proxy of {host}: {without}")
    if consent:
        _state.routes[origin] = proxy
    return proxy


def demand_host(address: str, what: str, *, consent: bool = True) -> None:
    """Ask before something is sent to an address directly.

    Args:
        address: An URL.
        what: Name of the receiver, for the message.
        consent: Whether data without a policy need the user's word for a public host, and a policy may want
            cases scanned.

    Raises:
        PolicyError: A policy forbids it, or the user has not allowed it.
    """
    _demand(host_name(address), what, consent)


def _demand(host: str, what: str, consent: bool, why: str = "") -> None:
    if host in _state.passed:
        return
    if fault := _state.fault_of_host(host):
        raise PolicyError(f"{fault}{why}")
    if not _state.held and consent and is_public(host) and not (_state.any_host or host in _state.hosts):
        raise PolicyError(
            f"{what}: texts of cases would go to {host}, and no policy says whether they may; put a {FILE}"
            " next to the cases, name one by --policy, or pass --allow-hosted if their agreement permits it"
            f"{why}"
        )
    if consent and is_public(host):
        for cases, keys in _state.cases:
            demand_scanned(cases, keys, host)
    if consent:
        _state.passed.add(host)


def demand_consent(what: str) -> None:
    """Ask before texts go to a model that shows no address; a held policy judges each connection it makes.

    Raises:
        PolicyError: A policy is missing, and the user has not allowed hosted models.
    """
    if not _state.held and not _state.any_host:
        raise PolicyError(
            f"{what}: it shows no address, so texts of cases could go to any host, and no policy says whether"
            f" they may; name the address after @, put a {FILE} next to the cases, name one by --policy, or"
            " pass --allow-hosted if their agreement permits it"
        )


def public_hosts(addresses: Iterable[str]) -> list[str]:
    """Hosts, including proxies, that need the user's consent without a policy."""
    urls = [url for address in addresses for url in (address, proxy_of(address)) if url is not None]
    return sorted({host for host in map(host_name, urls) if is_public(host)})


def host_name(address: str) -> str:
    """The host of an URL, without its port; the text itself where it has none."""
    try:
        return plain_host(urlsplit(address).hostname or address)
    except ValueError:
        return address


def _raise_first(faults: Iterable[str]) -> None:
    fault = next(filter(None, faults), None)
    if fault is not None:
        raise PolicyError(fault)


def _wall(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse lookups and connections that the policies do not allow.

    Raises:
        PolicyError: Names the host.
    """
    if not event.startswith("socket.") or not _state.held:
        return
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        # An address of a Unix socket is a path.
        host = address[0] if isinstance(address, tuple) and len(address) >= 2 else None
    else:
        return
    host = _text(host)
    if not host or is_loopback(host) or host == _state.listens:
        return
    fault = _state.fault_of_host(host)
    names = tuple(_state.looked_up.get(str(ip_address(host)), ()))
    if fault and all(map(_state.fault_of_host, names)):
        raise PolicyError(fault)


def _remember_lookups() -> None:
    """Keep the addresses that names lead to, for the wall: the event of a lookup comes before its result."""
    look_up = socket.getaddrinfo
    if look_up.__module__ == __name__:
        return

    def remembered(host: Any, *arguments: Any, **named: Any) -> Any:
        found = look_up(host, *arguments, **named)
        for *_, address in found:
            _state.looked_up.setdefault(str(ip_address(str(address[0]))), set()).add(_text(host))
        return found

    vars(socket)["getaddrinfo"] = remembered


def _text(host: object) -> str:
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    return plain_host(host) if isinstance(host, str) else ""
