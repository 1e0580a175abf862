"""The same flag for the same thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunFolderArgument = Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN", show_default=False)]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="Model of all roles, or ROLE=STRING for one of classify, label, reflect, answer. Repeatable.",
        metavar="STRING",
        show_default=False,
    ),
]
VotesOption = Annotated[
    str | None,
    typer.Option(
        "--votes",
        help="Votes on each case: a number, or a range such as 3..9 for as many as it takes to settle every"
        " label. (default: the recipe's)",
        metavar="R",
        show_default=False,
    ),
]
ThresholdOption = Annotated[
    int | None,
    typer.Option(
        "--threshold",
        help="Essential from so many votes on, of the most that there can be. (default: the recipe's)",
        metavar="T",
        show_default=False,
    ),
]
DemosOption = Annotated[
    Path | None,
    typer.Option(
        "--demos",
        help="Folder of a demonstration pool. (default: the packaged sample pool)",
        show_default=False,
    ),
]
EmbeddingOption = Annotated[
    str,
    typer.Option(
        "--embedding", help="What demonstrations are compared with: embedded:minilm, lexical:1024, ..."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option(
        "--concurrency", min=1, help="Cases at once. (default: the model's own limit)", show_default=False
    ),
]
RetriesOption = Annotated[
    int, typer.Option("--max-retries", min=0, help="Further attempts of a failed request; 0 means none.")
]
