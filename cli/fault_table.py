"""Faults of a submission, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from cases.submissions.fault import Fault
from cli.terminal import safe

_COLOURS = {"refused": "red", "penalised": "yellow"}


def print_faults(console: Console, faults: Sequence[Fault], rows: int) -> None:
    """Print a table of the first `rows` faults, and how many more there are."""
    if not faults:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("severity", no_wrap=True)
    table.add_column("case", min_width=4, overflow="fold")
    table.add_column("place", overflow="fold")
    table.add_column("fault", overflow="fold", ratio=3)
    table.add_column("remedy", overflow="fold", ratio=2)
    for fault in faults[:rows]:
        table.add_row(
            safe(fault.severity, _COLOURS[fault.severity]),
            safe(_printable(fault.case or "-")),
            safe(_printable(fault.place or "-")),
            safe(_printable(fault.fault)),
            safe(_printable(fault.remedy)),
        )
    console.print(table)
    if len(faults) > rows:
        console.print(f"... and {len(faults) - rows} more: --rows {len(faults)} shows all")
    console.print()


def counted(faults: Sequence[Fault]) -> str:
    """`2 refused, 3 penalised`; empty if nothing is wrong."""
    counts = Counter(fault.severity for fault in faults)
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("refused", "penalised") if counts[kind])


def fault_fields(faults: Sequence[Fault]) -> list[dict[str, Any]]:
    """For `--json`."""
    return [{name: value and _printable(value) for name, value in asdict(fault).items()} for fault in faults]


def _printable(text: str) -> str:
    """JSON may name half of a surrogate pair, which no terminal takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
