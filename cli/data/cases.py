"""`evigraph cases`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cases.texts import quoted
from cli.options import PartOption
from cli.terminal import Result, plural, print_line, print_message

if TYPE_CHECKING:
    from cases.records import Case

cases = typer.Typer(
    no_args_is_help=True, help="Case files made from notes of your own, or from published data sets."
)

OutOption = Annotated[Path, typer.Option("--out", "-o", help="File to write.", metavar="FILE")]
SampleOption = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="A random choice of N.", metavar="N")
]
SeedOption = Annotated[int, typer.Option(help="Seed of the choice.")]

_FAULTS = 10
"""Most faults that are printed, one a line."""


@cases.command("import")
def import_(
    notes: Annotated[
        list[Path],
        typer.Argument(
            help="Notes: .txt, .md, .docx or .pdf files, tables (.csv, .tsv), or folders of them.",
            metavar="FILES...",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Case file to write (.jsonl). (default: only show)", metavar="FILE"),
    ] = None,
    question: Annotated[
        str, typer.Option("--question", "-q", help="Question of each note that comes without one.")
    ] = "",
    encoding: Annotated[
        str, typer.Option(help="Encoding of the files, such as cp1252 for those of Windows.")
    ] = "utf-8",
    note_column: Annotated[
        str, typer.Option(help="Column of a table that has the notes.", metavar="NAME")
    ] = "note",
    question_column: Annotated[
        str, typer.Option(help="Column that has the questions.", metavar="NAME")
    ] = "question",
    id_column: Annotated[str, typer.Option(help="Column that has the ids.", metavar="NAME")] = "id",
    show: Annotated[int, typer.Option(min=0, help="Show the sentences of so many cases.")] = 1,
    rows: Annotated[int, typer.Option(min=1, help="Most sentences shown of a case.")] = 20,
) -> Result:
    """Make cases of notes: files, or a table with the columns id, question, narrative and note.

    Each note is split into numbered sentences, and the first case is shown as it would run. The question on
    NAME.txt is in NAME.question.txt next to it, in the table, or in --question. Nothing is written if
    a note cannot be used.

    Example: evigraph cases import notes.csv --out cases.jsonl
    """
    from cases.formats.note_files import import_notes
    from cases.formats.plain_jsonl import write_jsonl
    from evals.pages.tables import some
    from serving.policy.policy import PolicyError, find_policies, keep_beside
    from storage.errors import InputError

    if out is not None and out.suffix.lower() != ".jsonl":
        raise InputError(out, "is not the name of a .jsonl file", f"Call it {out.with_suffix('.jsonl')}")
    named = {"note": note_column, "question": question_column, "id": id_column}
    columns = {column: name for column, name in named.items() if name != column}
    found = import_notes(notes, question=question, encoding=encoding, columns=columns)
    if found.faults:
        for fault in found.faults[:_FAULTS]:
            print_message(f"evigraph: {fault}")
        more = len(found.faults) - _FAULTS
        least = "at least " if found.given_up else ""
        left = f"... and {least}{more:,} more; " if more > 0 else ""
        print_message(f"{left}nothing was written")
        raise typer.Exit(2)
    if out is not None:
        policies, there = find_policies(notes), find_policies([out])
        if [one.rules for one in policies] != [one.rules for one in there]:
            if there and policies:
                raise PolicyError(f"{out}: the notes and this folder have different policies; choose another")
            keep_beside(out.parent, policies)
        write_jsonl(out, found.cases)
    sentences = sum(len(case.sentences) for case in found.cases)

    def print_found() -> None:
        for case in found.cases[:show]:
            _print_case(case, rows)
        for path, names in found.unused.items():
            print_line(f"{path}: not read: {plural(len(names), 'column')} ({', '.join(names)})", "yellow")
        if found.unread:
            files = some([str(path) for path in found.unread], _FAULTS)
            print_line(f"not read: {plural(len(found.unread), 'file')} ({files})", "yellow")
        print_line(
            f"{plural(len(found.cases), 'case')} with {plural(sentences, 'sentence')}"
            + (f", in {out}" if out else ", not written")
        )
        named = f"evigraph run tamu {quoted(out)} --model STRING"
        again = "the same with --out cases.jsonl"
        print_line(f"next: {named if out else again}")

    content = {
        "file": str(out) if out else None,
        "cases": len(found.cases),
        "sentences": sentences,
        "unused_columns": {str(path): names for path, names in found.unused.items()},
        "unread_files": [str(path) for path in found.unread],
    }
    return Result(content, print_found)


def _print_case(case: Case, rows: int) -> None:
    print_line(f"case {case.id}: {case.question or '(in the words of the patient)'}", "bold", wrap=True)
    width = len(str(min(rows, len(case.sentences))))
    for sentence in case.sentences[:rows]:
        print_line(f"{sentence.id:>{width}}  {sentence.text}", wrap=True)
    if (left := len(case.sentences) - rows) > 0:
        print_line(f"... and {left:,} more: --rows {len(case.sentences)} shows all")
    print_line()


@cases.command("scifact")
def scifact(
    claims: Annotated[
        Path,
        typer.Argument(
            help="SciFact's claims, or a folder with claims*.jsonl and corpus*.jsonl.", metavar="CLAIMS"
        ),
    ],
    out: OutOption,
    corpus: Annotated[
        Path | None, typer.Option(help="Its abstracts. (default: corpus*.jsonl next to the claims)")
    ] = None,
    min_sentences: Annotated[int, typer.Option(min=1, help="Leave out abstracts of fewer sentences.")] = 2,
    part: PartOption = None,
    limit: SampleOption = None,
    seed: SeedOption = 42,
) -> Result:
    """Write claims of SciFact as cases: claims are asked, abstracts are notes, rationales are essential.

    One case for each claim and each abstract with evidence. No two parts share a claim or an abstract, so
    that one may be run and the other shown as demonstrations. Equal seeds choose the same cases.

    Example: evigraph cases scifact scifact/ --part 1/2 --limit 150 --out claims.jsonl
    """
    from cases.formats.plain_jsonl import write_jsonl
    from evals.published_cases import scifact_cases
    from evals.search.questions import Part

    made = scifact_cases(
        claims,
        corpus=corpus,
        min_sentences=min_sentences,
        part=None if part is None else Part.parse(part),
        limit=limit,
        seed=seed,
    )
    write_jsonl(out, made)
    sentences = sum(len(case.sentences) for case in made)
    essential = sum(label == "essential" for case in made for label in (case.gold.labels or {}).values())

    def print_made() -> None:
        cases = f"{plural(len(made), 'case')} with {plural(sentences, 'sentence')}"
        print_line(f"{cases}, {essential:,} essential, in {out}")
        print_line(f"next: evigraph run tamu {quoted(out)} --model STRING")

    content = {"file": str(out), "cases": len(made), "sentences": sentences, "essential": essential}
    return Result(content, print_made)


@cases.command("pubmedqa")
def pubmedqa(
    questions: Annotated[Path, typer.Argument(help="PubMedQA in its official form.", metavar="FILE")],
    out: OutOption,
    limit: SampleOption = None,
    seed: SeedOption = 42,
) -> Result:
    """Write questions of PubMedQA as yes/no questions of BioASQ, with their contexts as snippets.

    Questions that are answered `maybe` are left out, and long answers become ideal ones. For the graph
    `timeaware` nothing has to be converted: it reads PubMedQA directly.

    Example: evigraph cases pubmedqa pqal.json --limit 60 --out yesno.json
    """
    from cases.formats.json_questions import pubmedqa_as_bioasq
    from evals.published_cases import sample
    from storage.errors import InputError
    from storage.files import json_bytes, write_atomically

    found = pubmedqa_as_bioasq(questions)
    chosen = sample(list(found.questions), limit, seed, str)
    if not chosen:
        raise InputError(questions, "no question in it is answered yes or no and has a context")
    made = [found.questions[id_] for id_ in chosen]
    write_atomically(out, [json_bytes({"questions": made}, indent=1)])
    yes = sum(question["exact_answer"] == "yes" for question in made)
    left_out = {"undecided": found.undecided, "without_context": found.unsupported}

    def print_made() -> None:
        print_line(f"{plural(len(made), 'question')}, {yes:,} answered yes, in {out}")
        if left := sum(left_out.values()):
            print_line(f"left out: {left:,} answered maybe or not at all, or without a context")
        print_line(f"next: evigraph run bioasq {quoted(out)} --model STRING")

    content = {"file": str(out), "questions": len(made), "yes": yes, "left_out": left_out}
    return Result(content, print_made)
