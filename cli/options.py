"""Arguments and options that several commands share: the same name for the same thing everywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cases.texts import quoted
from cli.completion import VARIABLE, model_names, run_names

if TYPE_CHECKING:
    from access.users import Users


def run_folder(name: str) -> Path:
    """The folder of a run that is named by its path, as `last`, or by a tag.

    Raises:
        RunError: No run is meant, or several are.
    """
    if VARIABLE in os.environ:
        # What follows it is completed, and to read runs takes seconds.
        return Path(name)
    from cli.terminal import print_message
    from runs.record.elsewhere import elsewhere
    from runs.record.found import named_run

    path = Path(name)
    path = path if path.exists() else named_run(name)
    if (found := elsewhere(path)) is not None:
        print_message(f"{path}: its session writes in {found.words}; showing its last published state")
    return path


def input_path(text: str) -> Path:
    """Path of a case or key file, or of the local copy for a URL of object storage.

    Raises:
        StorageError: It is not a storage URL, or contains a secret.
        InputError: It has a part that no file can have.
    """
    if "://" not in text:
        return Path(text)
    from serving.policy.fetched import input_path as place_of_input

    return place_of_input(text)


RunFolderArgument = Annotated[
    Path,
    typer.Argument(
        help="A run folder, its tag, or last.", metavar="RUN", parser=run_folder, autocompletion=run_names
    ),
]
CaseArgument = Annotated[str | None, typer.Argument(help="A case id.", metavar="[CASE]")]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="Model of all roles, or ROLE=STRING for one of classify, label, reflect, answer, verify."
        " Repeatable.",
        metavar="STRING",
        autocompletion=model_names,
    ),
]
EffortOption = Annotated[
    list[str] | None,
    typer.Option(
        "--effort",
        help="Set how much models think: off, minimal, low, medium, high or max; ROLE=LEVEL sets one role."
        " Repeatable. (default: the recipe's, else the provider's)",
        metavar="[ROLE=]LEVEL",
    ),
]
VotesOption = Annotated[
    str | None,
    typer.Option(
        "--votes",
        help="Votes on each case: a number, or a range such as 3..9 to stop as soon as every label is"
        " settled. (default: the recipe's)",
        metavar="R",
    ),
]
ThresholdOption = Annotated[
    int | None,
    typer.Option(
        "--threshold",
        help="Votes needed to label a sentence essential. (default: the recipe's)",
        metavar="T",
    ),
]
PromptOption = Annotated[
    list[str] | None,
    typer.Option("--prompt", help="Replace a prompt by a file. Repeatable.", metavar="NAME=FILE"),
]
PromptSetOption = Annotated[
    str | None,
    typer.Option(
        "--prompt-set",
        help="Version of all prompts, such as laptop, or a folder. `evigraph prompts list` names them.",
        metavar="NAME|DIR",
    ),
]
PartOption = Annotated[
    str | None,
    typer.Option(
        "--part",
        help="Only one part of the questions, such as 1/2. No two parts share a relevant document.",
        metavar="N/M",
    ),
]
EmbeddingOption = Annotated[
    str,
    typer.Option(
        "--embedding", help="Embedder that compares demonstrations: embedded:minilm, lexical:1024, ..."
    ),
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", help="Write an HTML page to this file.", metavar="FILE")
]
TaskName = Literal["2025", "2026-1", "2026-2", "2026-3", "2026-4", "bioasq-a", "bioasq-a+", "bioasq-b"]
WorstFirstOption = Annotated[
    bool, typer.Option("--worst-first", help="List cases by their scores, the worst first.")
]
TaskOption = Annotated[
    TaskName | None,
    typer.Option(
        "--task",
        "-t",
        help="ArchEHR-QA 2025, or a subtask of 2026: 1 question, 2 evidence, 3 answer, 4 links;"
        " or a phase of BioASQ. (default: by the shape of the file, which is the same for 2026-1 and 2026-3,"
        " and for bioasq-a+ and bioasq-b)",
    ),
]
KeyOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--key",
        help="Key file; repeatable. (default: the run's, or NAME_key.json next to NAME.xml of --cases)",
        metavar="FILE|URL",
        parser=input_path,
    ),
]
NewKeyOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--key",
        help="Key file; repeatable. (default: NAME_key.json next to NAME.xml)",
        metavar="FILE|URL",
        parser=input_path,
    ),
]
CasesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--cases",
        help="Case file (.xml, .jsonl; .json of questions) or a folder of them; repeatable."
        " (default: the run's)",
        metavar="FILE|URL",
        parser=input_path,
    ),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="Only the first N cases.", metavar="N")
]
ChosenCasesOption = Annotated[
    str | None,
    typer.Option(
        "--case-ids",
        help="Only these cases: ids and ranges such as 101-106,120, or @FILE with an id a line. --limit takes"
        " the first of them.",
        metavar="IDS|@FILE",
    ),
]
ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard",
        help="Only shard I of N, counted from 0: the cases whose id hashes to I. `evigraph merge` makes one"
        " run of all N.",
        metavar="I/N",
    ),
]
HostOption = Annotated[
    str, typer.Option("--host", help="Address to listen on; any but loopback is open to the network.")
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        help="Port to listen on; 0 takes any free one. (default: 8377, or a free one)",
    ),
]
UsersOption = Annotated[
    Path | None,
    typer.Option(
        "--users",
        help="People and programs come with the tokens of this file, which `evigraph users` writes.",
        metavar="FILE",
    ),
]
TlsOption = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        "--tls", help="Encrypt everything: PEM files of a certificate and of its key.", metavar="CERT KEY"
    ),
]


def users_of(path: Path | None) -> Users | None:
    """Users who may sign in; None without a file.

    Raises:
        InputError: Nobody may, or the file cannot be used.
    """
    from access.users import Users
    from storage.errors import InputError

    if path is None:
        return None
    known = Users(path)
    if not known.all():
        raise InputError(
            path, "nobody may sign in", f"evigraph users add NAME --role admin --users {quoted(path)}"
        )
    return known


QuestionLimitOption = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="Only the first N questions.", metavar="N")
]


def local_path(text: str) -> Path:
    """Path on this machine; rejects URLs.

    Raises:
        InputError: It is a URL.
    """
    from storage.errors import InputError

    if "://" in text:
        raise InputError(text, "is a URL", "Name a file or folder of this machine")
    return Path(text)


QuestionsArgument = Annotated[
    list[Path],
    typer.Argument(
        help="BioASQ questions with their documents, or SciFact's claims.",
        metavar="QUESTIONS...",
        parser=local_path,
    ),
]
SearchedCorpusOption = Annotated[Path, typer.Option("--corpus", help="Corpus to search.", metavar="FOLDER")]
VectorIndexOption = Annotated[
    Path | None, typer.Option("--index", help="Index of vectors over the corpus.", metavar="FOLDER")
]
ExamplesArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Files of examples (ArchEHR XML, .jsonl), and folders of SciFact or Evidence Inference.",
        metavar="DATA...",
        parser=local_path,
    ),
]
ExampleFormat = Literal["scifact", "evidence_inference", "archehr", "jsonl"]
FormatOption = Annotated[
    ExampleFormat | None,
    typer.Option("--reader", help="Format of the data. (default: by its files and fields)"),
]
