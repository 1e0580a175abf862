"""`evigraph audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from cli.options import JsonOption, RunFolderArgument
from cli.terminal import plural, print_json, print_line, print_table

if TYPE_CHECKING:
    from runs.audit import AuditLine

_WHO = ("at", "event", "person", "user", "machine")


def audit(run: RunFolderArgument, as_json: JsonOption = False) -> None:
    """Verify the audit log of a run, and print who did what with it.

    The log says who started, resumed and retried the run, how many requests and bytes went to which hosts,
    who opened and reviewed which case in the viewer, and what was exported. It holds no text of a case. Each
    line is sealed with those before it: exit code 1 if one was changed, added or taken out, and the first is
    named. A merged run keeps the logs of its shards, which are verified too.

    Example: evigraph audit out/2026-11-21T10-15-tamu-ab12
    """
    from runs.audit import AUDIT, kept_logs, no_audit, read_audit

    lines = list(read_audit(run))
    if not lines:
        raise no_audit(run)
    broken = next((line for line in lines if line.fault), None)
    kept = list(kept_logs(run, lines))
    broken_logs = [(path, fault) for path, _, fault in kept if fault]
    if as_json:
        print_json(
            {
                "run": str(run),
                "whole": broken is None and not broken_logs,
                "first_broken": None if broken is None else {"line": broken.number, "fault": broken.fault},
                **(
                    {
                        "logs_of_shards": [
                            {"log": str(path), "lines": number, "fault": fault}
                            for path, number, fault in kept
                        ]
                    }
                    if kept
                    else {}
                ),
                "lines": [{"line": one.number, **(one.fields or {}), "fault": one.fault} for one in lines],
            }
        )
    else:
        _print(lines)
        if broken is not None:
            print_line(f"{run / AUDIT}: line {broken.number}: {broken.fault}", "yellow", soft_wrap=True)
        else:
            print_line(f"whole: {plural(len(lines), 'line')}, each sealed with those before it")
        for path, fault in broken_logs:
            print_line(f"{path}: {fault}", "yellow", soft_wrap=True)
        if kept and not broken_logs:
            total = sum(number for _, number, _ in kept)
            print_line(f"whole: {plural(total, 'line')} in the logs of {plural(len(kept), 'shard')}")
    if broken is not None or broken_logs:
        raise typer.Exit(1)


def _print(lines: list[AuditLine]) -> None:
    from evals.pages.tables import Column, Table

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
    columns = [Column("line", "number"), *(Column(name, "text") for name in ("UTC", "who", "account"))]
    print_table(Table([*columns, Column("event", "text"), Column("what", "text")], rows))


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
