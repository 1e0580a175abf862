"""The same flag for the same thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_SERVERS = "Servers"
_BUDGET = "Budget"

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
        "--concurrency", min=1, help="Cases at once. (default: as many as connections)", show_default=False
    ),
]
RetriesOption = Annotated[
    int,
    typer.Option(
        "--max-retries",
        min=0,
        help="Further attempts of a failed request; 0 means none.",
        rich_help_panel=_SERVERS,
    ),
]
MaxConnectionsOption = Annotated[
    int | None,
    typer.Option(
        "--max-connections",
        min=1,
        help="Most requests under way at once, on each server. (default: 128 on a server, 64 elsewhere)",
        show_default=False,
        rich_help_panel=_SERVERS,
    ),
]
StartConnectionsOption = Annotated[
    int | None,
    typer.Option(
        "--start-connections",
        min=1,
        help="Requests at once at the start; it grows from there. (default: 16 on a server, else 8)",
        show_default=False,
        rich_help_panel=_SERVERS,
    ),
]
RpmOption = Annotated[
    int | None,
    typer.Option(
        "--rpm",
        min=1,
        help="Most requests a minute, on each server.",
        show_default=False,
        rich_help_panel=_SERVERS,
    ),
]
TpmOption = Annotated[
    int | None,
    typer.Option(
        "--tpm",
        min=1,
        help="Most tokens a minute, on each server; prompts and token limits count.",
        show_default=False,
        rich_help_panel=_SERVERS,
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.001,
        help="Seconds until a request without a complete reply is given up.",
        rich_help_panel=_SERVERS,
    ),
]
MaxOutageOption = Annotated[
    float,
    typer.Option(
        "--max-outage",
        min=0,
        help="Seconds to wait for a server that is away, as while it restarts; then its calls fail.",
        rich_help_panel=_SERVERS,
    ),
]
ProbeOption = Annotated[
    bool,
    typer.Option(
        "--probe/--no-probe",
        help="Ask each server at the start, in a few tiny requests, what it can do.",
        rich_help_panel=_SERVERS,
    ),
]
MaxTokensTotalOption = Annotated[
    int | None,
    typer.Option(
        "--max-tokens-total",
        min=1,
        help="Most tokens that all sessions of the run may read and write; then it stops, resumable.",
        show_default=False,
        rich_help_panel=_BUDGET,
    ),
]
MaxCostOption = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        min=0,
        help="Most that all sessions of the run may cost, by --prices; then it stops, resumable.",
        show_default=False,
        rich_help_panel=_BUDGET,
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help="YAML file of prices per million tokens, by model.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=_BUDGET,
    ),
]
