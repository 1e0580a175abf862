"""A question of BioASQ: documents, snippets, the exact answer with its votes, and what experts said."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cases.records import Case
from cases.texts import plural
from cli.terminal import safe
from runs.record.folder import Line
from viewer.case_parts.question import read_question

_CHOSEN = {True: ("*", "green"), False: ("", ""), None: ("", "")}


def print_question(console: Console, line: Line, case: Case | None, steps: Sequence[Line]) -> None:
    """Print the ranking, if there is one, and the snippets by document; a star is what experts chose."""
    shown = read_question(line, case, steps)
    if shown is None:
        return
    if shown.ranking:
        table = _table("rank", "document", "score", "experts")
        for one in shown.ranking:
            score = "-" if one.score is None else f"{one.score:.4g}"
            table.add_row(str(one.rank), safe(one.id), score, safe(*_CHOSEN[one.relevant]))
        console.print()
        console.print(table)
        if shown.missed:
            console.print(f"(not in the ranking: {plural(shown.missed, 'document')} that experts chose)")
    if shown.documents:
        table = _table("document", "experts", "place", "snippet")
        for document in shown.documents:
            for number, snippet in enumerate(document.snippets):
                first = number == 0
                table.add_row(
                    safe(document.id if first else ""),
                    safe(*_CHOSEN[document.relevant if first else None]),
                    safe(snippet.place),
                    safe(snippet.text or ""),
                )
        console.print()
        console.print(table)


def question_rows(line: Line, case: Case | None, steps: Sequence[Line]) -> list[tuple[str, Text]]:
    """The exact answer with its votes, and both kinds of answer of the key."""
    shown = read_question(line, case, steps)
    if shown is None:
        return []
    rows = []
    if shown.entries:
        entries = [
            f"{'* ' if one.right else ''}{one.text}{f' ({one.counted})' if one.counted else ''}"
            for one in shown.entries
        ]
        rows.append(("exact answer", safe("\n".join(entries))))
    if shown.key:
        rows.append(("exact key", safe("\n".join(shown.key))))
    rows += [("ideal key", safe(text)) for text in shown.ideal_answers]
    return rows


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold", justify="right" if name in ("rank", "score") else "left")
    return table
