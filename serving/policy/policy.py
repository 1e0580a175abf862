"""Data policies: YAML files that say where the texts of a data set may go."""

from __future__ import annotations

import hashlib
import ipaddress
import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Literal

import yaml
from platformdirs import user_config_path
from pydantic import Field, field_validator

from cases.definitions import DefinitionKind, Section
from serving.protocol.addresses import ip_address, is_loopback, is_public, plain_host
from serving.protocol.errors import ModelError
from serving.protocol.model_name import PROVIDERS
from storage.copies import fetch, folder_of, url_of
from storage.url_names import name_of

FILE = "policy.yaml"
"""Beside the cases, or in the user's configuration folder."""

LOOPBACK, PRIVATE = "loopback", "private"

Action = Literal["batches", "export_payloads", "bundle_texts", "view_from_other_hosts"]

_FORBIDDEN: dict[Action, str] = {
    "batches": "texts of cases may not go into a provider's batches; leave batch: out of --model",
    "export_payloads": "texts of cases may not be exported; leave --payloads out",
    "bundle_texts": "texts of cases may not be written into a bundle; pass --redact",
    "view_from_other_hosts": "pages with texts of cases may be served on loopback only; leave --host out",
}


class PolicyError(ModelError):
    """Violation of a data policy, or an unusable policy, in one line."""


class NotScanned(PolicyError):
    """Cases that a policy wants scanned before they are sent."""


class Policy(Section):
    """Permitted uses of a data set's texts. Everything else is forbidden."""

    name: str = Field(description="Name of the data.", min_length=1)
    agreement: str = Field("", description="Agreement that covers them, for the record.")
    hosts: tuple[str, ...] = Field(
        (LOOPBACK,),
        description="Hosts that may see texts: loopback, private, names, globs, addresses, networks.",
    )
    providers: tuple[str, ...] | None = Field(
        None, description="Providers of models that may see texts; all where it is left out."
    )
    zero_retention: bool = Field(
        False, description="Whether hosts outside of private networks must be known to keep nothing."
    )
    zero_retention_hosts: tuple[str, ...] = Field(
        (), description="Such hosts that have agreed to keep nothing, in the forms of `hosts`."
    )
    scan_before_hosted: bool = Field(
        False,
        description="Whether `evigraph scan` must have looked at the cases before a host outside of private"
        " networks sees them.",
    )
    batches: bool = Field(False, description="Whether batches of providers may hold texts.")
    export_payloads: bool = Field(False, description="Whether `export --payloads` is allowed.")
    bundle_texts: bool = Field(False, description="Whether `view --bundle` without --redact is allowed.")
    view_from_other_hosts: bool = Field(False, description="Whether `view --host` may be any but loopback.")

    @field_validator("providers")
    @classmethod
    def _known(cls, providers: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in providers or ():
            if name not in PROVIDERS:
                raise ValueError(f"unknown provider {name!r}; known: {', '.join(PROVIDERS)}")
        return providers

    @field_validator("hosts", "zero_retention_hosts")
    @classmethod
    def _readable(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        for rule in rules:
            if not rule or "://" in rule or " " in rule or (_network(rule) is None and "/" in rule):
                raise ValueError(
                    f"{rule!r} is not a host: write loopback, private, a name such as gpu01 or *.example.org,"
                    " or an address or network such as 10.1.0.0/16"
                )
        return rules


class HeldPolicy(Section):
    """A policy with where it came from, as `run.json` records it.

    Attributes:
        origin: Its file, or the name of a packaged one.
        sha256: Of the file.
        rules: All of it, so that it cannot be lost.
    """

    origin: str
    sha256: str
    rules: Policy

    def fault_of_host(self, host: str) -> str:
        """Why no text may go to a host; empty if it may."""
        if not _matches(host, self.rules.hosts):
            allowed = ", ".join(self.rules.hosts) or "none"
            return self._fault("hosts", f"{host} may see no text of a case (allowed: {allowed})")
        kept_nothing = not is_public(host) or _matches(host, self.rules.zero_retention_hosts)
        if self.rules.zero_retention and not kept_nothing:
            return self._fault("zero_retention", f"{host} is not among zero_retention_hosts")
        return ""

    def fault_of_provider(self, provider: str) -> str:
        """Why models of a provider may see no text; empty if they may."""
        allowed = self.rules.providers
        if allowed is None or provider in allowed:
            return ""
        shown = ", ".join(allowed) or "none"
        return self._fault("providers", f"{provider} may see no text of a case (allowed: {shown})")

    def fault_of_scan(self, host: str, files: Sequence[Path], command: str) -> str:
        """Fault of sending unscanned files to a host, with the command that scans them."""
        more = f" and {len(files) - 1} more were not" if len(files) > 1 else " was not"
        first = name_of(files[0])
        what = f"{host} may see cases that were scanned as they are now, and {first}{more}: {command}"
        return self._fault("scan_before_hosted", what)

    def fault_of(self, action: Action) -> str:
        """Why something is forbidden; empty if it is allowed."""
        return "" if getattr(self.rules, action) else self._fault(action, _FORBIDDEN[action])

    def _fault(self, rule: str, what: str) -> str:
        return f"policy {self.rules.name!r} ({self.origin}), rule {rule}: {what}"


_KIND = DefinitionKind("policy", "policies", resources.files("serving").joinpath("policies"), PolicyError)


def load_policy(name_or_path: str) -> HeldPolicy:
    """Read a packaged policy by its name, or a file.

    Raises:
        PolicyError: It cannot be read, or a field is unknown or wrong.
    """
    read = _KIND.read(name_or_path)
    rules = _KIND.check(Policy, read.values, name_or_path)
    packaged = name_or_path in _KIND.packaged_names()
    origin = f"packaged {name_or_path}" if packaged else name_of(Path(name_or_path).resolve())
    return HeldPolicy(origin=origin, sha256=hashlib.sha256(read.text.encode()).hexdigest(), rules=rules)


def find_policies(paths: Iterable[Path]) -> tuple[HeldPolicy, ...]:
    """Policies next to files or in folders; the user's own if none is found.

    Raises:
        PolicyError: One cannot be read, or has nearly the name of one.
    """
    folders = dict.fromkeys(folder for path in paths for folder in _folders_of(path))
    found = [folder / FILE for folder in folders if _lies_in(folder)]
    own = user_config_path("evigraph")
    if not found and _lies_in(own):
        found = [own / FILE]
    return tuple(load_policy(str(path)) for path in found)


def _folders_of(path: Path) -> tuple[Path, ...]:
    """Folders that may hold the policy of a file or folder.

    For a link, next to the link and to its target.
    """
    if url_of(path) is not None:
        return (folder_of(path),)
    real = path.resolve()
    return (real,) if real.is_dir() else (path.parent.resolve(), real.parent)


def _lies_in(folder: Path) -> bool:
    other = folder / f"{Path(FILE).stem}.yml"
    for file in (folder / FILE, other):
        fetch(file, "the data policy next to the cases, which --policy can name instead")
    if os.path.lexists(other):
        raise PolicyError(f"{name_of(other)}: a policy is called {FILE}; rename it")
    # A link that leads nowhere is a policy that cannot be read.
    return os.path.lexists(folder / FILE)


def keep_beside(folder: Path, policies: Iterable[HeldPolicy]) -> None:
    """Copy policies to derived data.

    Raises:
        PolicyError: There are several, and a folder has one.
        OSError: It cannot be written.
    """
    found = list({policy.sha256: policy for policy in policies}.values())
    if len(found) > 1:
        raise PolicyError(
            f"{folder}: its data have several policies ({', '.join(one.origin for one in found)}); name one"
            " that holds for all by --policy"
        )
    for policy in found:
        rules = policy.rules.model_dump(mode="json", exclude_defaults=True)
        (folder / FILE).write_text(yaml.safe_dump(rules, sort_keys=False), "utf-8")


def _matches(host: str, rules: Sequence[str]) -> bool:
    address = ip_address(host)
    for rule in rules:
        network = _network(rule)
        if rule == LOOPBACK:
            found = is_loopback(host)
        elif rule == PRIVATE:
            found = not is_public(host)
        elif network is not None:
            found = address is not None and address.version == network.version and address in network
        else:
            found = host == plain_host(rule) or fnmatchcase(host, rule.lower())
        if found:
            return True
    return False


def _network(rule: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return None
