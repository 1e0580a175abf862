"""`evigraph audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.options import RunFolderArgument
from cli.terminal import Result, plural, print_line, print_rows

if TYPE_CHECKING:
    from runs.record.audit import AuditLine

_WHO = ("at", "event", "person", "user", "machine")


def audit(run: RunFolderArgument) -> Result:
    """Print a run's audit log.

    The log records who started, resumed and retried the run, requests and bytes by host, who opened and
    reviewed which case in the viewer, and exports. It contains no case text. A merged run keeps the logs of
    its shards, which are counted. Exit code 1 if a line cannot be read.

    Example: evigraph audit out/2026-11-21T10-15-tamu-ab12
    """
    from runs.record.audit import AUDIT, kept_logs, no_audit, read_audit

    lines = list(read_audit(run))
    if not lines:
        raise no_audit(run)
    kept = list(kept_logs(run, lines))
    faults = [(f"{run / AUDIT}: line {line.number}", line.fault) for line in lines if line.fault]
    faults += [(str(path), fault) for path, _, fault in kept if fault]

    def print_log() -> None:
        _print(lines)
        for place, fault in faults:
            print_line(f"{place}: {fault}", "yellow")
        if kept:
            total = sum(number for _, number, _ in kept)
            print_line(f"{plural(total, 'line')} in the logs of {plural(len(kept), 'shard')}")

    shards = [{"log": str(path), "lines": number, "fault": fault} for path, number, fault in kept]
    content = {
        "run": str(run),
        **({"logs_of_shards": shards} if shards else {}),
        "lines": [{"line": one.number, **(one.fields or {}), "fault": one.fault} for one in lines],
    }
    return Result(content, print_log, int(bool(faults)))


def _print(lines: list[AuditLine]) -> None:
    rows = []
    for line in lines:
        fields = line.fields or {}
        user = f"{fields.get('user', '')}@{fields.get('machine', '')}" if fields else ""
        rows.append(
            [
                f"{line.number}{'!' if line.fault else ''}",
                str(fields.get("at", "")).replace("T", " ").removesuffix("+00:00"),
                str(fields.get("person") or fields.get("user", "")),
                user,
                str(fields.get("event", "cannot be read")),
                _words({name: value for name, value in fields.items() if name not in _WHO}),
            ]
        )
    print_rows(("line", "UTC", "who", "account", "event", "what"), rows, right=("line",))


def _words(facts: dict[str, Any]) -> str:
    hosts = facts.pop("hosts", {})
    sent = [
        f"{host}: {plural(counts['requests'], 'request')}, {counts['sent']:,} bytes sent,"
        f" {counts['received']:,} received"
        for host, counts in hosts.items()
    ]
    return "; ".join([*(f"{name} {_value(value)}" for name, value in facts.items()), *sent])


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
