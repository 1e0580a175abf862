"""`evigraph scan`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from cli.options import LimitOption, NewKeyOption, input_path
from cli.terminal import Result, plural, print_line


def scan(
    cases: Annotated[
        list[Path],
        typer.Argument(
            help="Case files, or folders of them; also by URL.", metavar="CASES...", parser=input_path
        ),
    ],
    key: NewKeyOption = None,
    limit: LimitOption = None,
    rows: Annotated[int, typer.Option(min=0, help="Most findings to list.")] = 50,
    fail: Annotated[bool, typer.Option("--fail", help="Exit with 1 where something was found.")] = False,
) -> Result:
    """Search cases for identifiers: names with titles, dates, phone numbers, ids, e-mail addresses.

    Findings are places, not texts. This is a warning and never a promise: patterns miss names without a
    title and much else, and find numbers that are none. Nothing is sent anywhere.

    That all cases of a file were scanned is remembered, by a hash of the file, for policies that want it.

    Exit codes: 0, also with findings; 1 findings and --fail; 2 wrong input.

    Example: evigraph scan notes.xml --json
    """
    from itertools import islice

    from cases.load import find_cases
    from cases.scans import digests
    from evals.identifiers import keep
    from evals.identifiers import scan as scan_cases

    source = find_cases(cases, key or [])
    before = digests(source)
    found = scan_cases(islice(source, limit))
    if limit is None and digests(source) == before:
        keep(found, before)
    kinds = Counter(one.kind for one in found.findings)

    def print_findings() -> None:
        for one in found.findings[:rows]:
            print_line(f"{one.kind:<14} case {one.case_id}, {one.field}, characters {one.start} to {one.end}")
        if len(found.findings) > rows:
            print_line(f"... and {len(found.findings) - rows:,} more: --rows {len(found.findings)} shows all")
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "nothing"
        unread = f"; {plural(len(found.unreadable), 'case')} could not be read" if found.unreadable else ""
        print_line(f"{plural(found.cases, 'case')}: {counts} found by patterns{unread}")
        print_line("a warning, no promise: names without a title and much else are not found", wrap=True)

    content = {
        "cases": found.cases,
        "cases_with_findings": len({one.case_id for one in found.findings}),
        "kinds": dict(kinds.most_common()),
        "findings": [one._asdict() for one in found.findings],
        "unreadable": list(found.unreadable),
    }
    return Result(content, print_findings, int(fail and bool(found.findings)))
