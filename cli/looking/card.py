"""`evigraph card`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.options import CasesOption, KeyOption, RunFolderArgument
from cli.terminal import Result, print_line


def card(
    run: RunFolderArgument,
    key: KeyOption = None,
    cases: CasesOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the Markdown to this file.", metavar="FILE")
    ] = None,
) -> Result:
    """Report a run by the items of TRIPOD-LLM in Markdown, as far as they are recorded.

    Models with revisions, prompts with hashes, data, settings, failures, compute and scores with intervals
    are filled in; the rest is marked as for the author. No text of a case comes in.

    Example: evigraph card out/2026-11-21T10-15-tamu-ab12 --out card.md
    """
    from evals.card import make_card
    from runs.record.folder import RunFolder
    from storage.files import write_atomically

    made = make_card(RunFolder(run), key or (), cases or ())
    if out is not None:
        write_atomically(out, [made.as_markdown().encode()])

    def print_card() -> None:
        if out is None:
            sys.stdout.write(made.as_markdown())
            return
        known = sum(bool(one.known) for one in made.items)
        print_line(f"{out}: {known} of {len(made.items)} items filled in, the others are for the author")

    return Result(made.as_json(), print_card)
