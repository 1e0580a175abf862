"""A question of BioASQ: documents, snippets, the exact answer with its votes, and what experts said."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from cases.records import Case
from cases.texts import plural
from cli.terminal import print_rows, safe
from runs.record.folder import Line
from viewer.case_parts.question import read_question

_CHOSEN = {True: ("*", "green"), False: ("", ""), None: ("", "")}


def print_question(console: Console, line: Line, case: Case | None, steps: Sequence[Line]) -> None:
    """Print the ranking, if there is one, and the snippets by document; a star is what experts chose."""
    shown = read_question(line, case, steps)
    if shown is None:
        return
    if shown.ranking:
        ranked = [
            (
                str(one.rank),
                one.id,
                "-" if one.score is None else f"{one.score:.4g}",
                safe(*_CHOSEN[one.relevant]),
            )
            for one in shown.ranking
        ]
        console.print()
        print_rows(("rank", "document", "score", "experts"), ranked, right=("rank", "score"))
        if shown.missed:
            console.print(f"(not in the ranking: {plural(shown.missed, 'document')} that experts chose)")
    if shown.documents:
        snippets = [
            (
                document.id if number == 0 else "",
                safe(*_CHOSEN[document.relevant if number == 0 else None]),
                snippet.place,
                snippet.text or "",
            )
            for document in shown.documents
            for number, snippet in enumerate(document.snippets)
        ]
        console.print()
        print_rows(("document", "experts", "place", "snippet"), snippets)


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
