"""`audit.jsonl`: who did what with a run; lines are only added.

No line holds a text of a case, a prompt or a reply. The log proves nothing: anyone who can write the file can
change it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
import pwd
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, NamedTuple

from runs.record.manifest import Manifest, RunError, own_version, utc_now
from serving.backends import addresses
from serving.journal.journal import Journal
from serving.policy.traffic import Traffic, since
from serving.protocol.addresses import host_of, proxy_of
from serving.protocol.model_name import PROVIDERS, ModelName, parse_model_name
from storage.errors import InputError
from storage.private import named_in_errors, open_here

AUDIT = "audit.jsonl"
SHARD_LOGS = "shard-audits"
"""Folder below a merged run with the logs of its shards."""
PERSON_VARIABLE = "EVIGRAPH_USER"
"""Names the person where several share an account of the system."""

Event = (
    Literal["started", "ended", "forked", "opened", "reviewed", "assigned", "exported", "bundled"]
    | Literal["repaired", "purged", "merged", "cancelled", "pushed"]
    | Literal["signed_in", "signed_out", "refused", "user_added", "user_renewed", "user_removed"]
)

_acting: ContextVar[str] = ContextVar("acting", default="")


class AuditLine(NamedTuple):
    """A line of the log, or its fault.

    Attributes:
        fields: As they were written; None where the line cannot be read.
        fault: Empty where it can.
    """

    number: int
    fields: dict[str, Any] | None
    fault: str = ""


def act_for(person: str) -> None:
    """Attribute records of this task and its children to a person; a process may act for several."""
    _acting.set(person)


def record(run: Path, event: Event, *, person: str = "", **facts: Any) -> None:
    """Add a line, on the disk for good when this returns.

    `facts` are names, numbers, ids of cases; never a text of one.

    Raises:
        InputError: The log is a symbolic link.
        OSError: It cannot be written.
    """
    with open_here(run / AUDIT, "a+b") as file:
        # Where a file system has no locks, lines are still written in one go.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        line = json.dumps({"at": utc_now(), "event": event, **_who(person), **facts})
        content = b"\n" * _is_torn(file.fileno()) + line.encode() + b"\n"
        with named_in_errors(run / AUDIT):
            if os.write(file.fileno(), content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())


def record_if_possible(run: Path, event: Event, *, person: str = "", **facts: Any) -> None:
    """Record a read access if possible: a run on a read-only disk may still be read."""
    with contextlib.suppress(OSError, InputError):
        record(run, event, person=person, **facts)


def record_start(run: Path, manifest: Manifest, command: str, journal: Journal | None) -> None:
    """Record that a session has begun, and before that the end of one that was killed.

    `journal` is the run's own, which has a killed session's replies; None if others share it.

    Raises:
        OSError: It cannot be written.
        JournalError: The journal cannot be read.
    """
    earlier = [one.fields for one in read_audit(run) if one.fields is not None]
    begun = [fields for fields in earlier if fields.get("event") in ("started", "ended")]
    if begun and begun[-1]["event"] == "started":
        hosts = {} if journal is None else since(_recorded(earlier), _of_journal(journal))
        record(run, "ended", status="killed", hosts=_as_fields(hosts), known_from="journal")
    policies = [f"{one.rules.name} ({one.sha256[:12]})" for one in manifest.policies]
    versions = {"evigraph": own_version(), "python": platform.python_version()}
    more: dict[str, Any] = {"policies": policies} if policies else {}
    models = sorted({model.name for model in manifest.models.values()})
    routes = map(proxy_of, (url for model in models for url in addresses(parse_model_name(model))))
    if proxies := sorted({host_of(proxy) for proxy in routes if proxy}):
        more["proxies"] = proxies
    record(run, "started", command=command, models=models, versions=versions, **more)


def record_end(run: Path, status: str, cases: int, hosts: Mapping[str, Traffic]) -> None:
    """Record the end of a session, and its traffic by host.

    Raises:
        OSError: It cannot be written.
    """
    record(run, "ended", status=status, cases=cases, hosts=_as_fields(hosts))


def read_audit(run: Path) -> Iterator[AuditLine]:
    """The lines of the log; empty without a log.

    Raises:
        RunError: It cannot be read.
    """
    yield from _read_log(run / AUDIT)


def _read_log(path: Path) -> Iterator[AuditLine]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror or error}") from None
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        fields = _fields(line)
        fault = "it is not a line of this log" if line.endswith(b"\n") else "it is truncated"
        yield AuditLine(number, fields, "" if fields is not None else fault)


def sent_by(run: Path) -> dict[str, Traffic]:
    """Traffic of a run's sessions by host, from its log."""
    return _recorded([line.fields for line in read_audit(run) if line.fields is not None])


def kept_logs(run: Path, lines: Iterable[AuditLine]) -> Iterator[tuple[Path, int, str]]:
    """The logs of shards that a merged run keeps.

    Yields:
        Each log, its number of lines, and its fault; empty if none.

    Raises:
        RunError: One cannot be read.
    """
    for line in lines:
        if line.fields is None or line.fields.get("event") != "merged":
            continue
        for name in line.fields["logs"]:
            path = run / SHARD_LOGS / name
            found = list(_read_log(path))
            broken = next((f"line {one.number}: {one.fault}" for one in found if one.fault), "")
            yield path, len(found), broken if found else "it is missing"


def _who(person: str) -> dict[str, str]:
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # An account without a name, as in many a container.
        user = str(os.getuid())
    named = person or _acting.get() or os.environ.get(PERSON_VARIABLE, "")
    return {"user": user, "machine": platform.node(), **({"person": named[:200]} if named else {})}


def _fields(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or "event" not in fields:
        return None
    return fields


def _is_torn(file: int) -> bool:
    """Whether the last line is truncated, as after a power cut."""
    length = os.fstat(file).st_size
    return length > 0 and os.pread(file, 1, length - 1) != b"\n"


def _recorded(earlier: list[dict[str, Any]]) -> dict[str, Traffic]:
    found: dict[str, Traffic] = {}
    for fields in earlier:
        for host, counts in fields.get("hosts", {}).items():
            found[host] = found.get(host, Traffic()).plus(Traffic(**counts))
    return found


def _of_journal(journal: Journal) -> dict[str, Traffic]:
    found: dict[str, Traffic] = {}
    for server, traffic in journal.traffic().items():
        service = server in PROVIDERS and addresses(ModelName(server, "any"))
        if host := host_of(server) or (server if service else ""):
            found[host] = found.get(host, Traffic()).plus(traffic)
    return found


def _as_fields(hosts: Mapping[str, Traffic]) -> dict[str, dict[str, int]]:
    return {host: traffic._asdict() for host, traffic in sorted(hosts.items())}


def no_audit(run: Path) -> RunError:
    """Error for a run without a log."""
    return RunError(f"{run}: no {AUDIT} here: not a run, a run of an earlier version, or the log was removed")
