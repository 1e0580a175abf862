"""The same flag for the same thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_SERVERS = "Servers"
_BUDGET = "Budget"
_METRICS = "Metrics that need weights or a licence"

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
EvidenceOption = Annotated[
    Literal["llm", "ranker", "both"] | None,
    typer.Option(
        "--evidence",
        help="Who votes on evidence: the model, a ranker alone, or both. (default: the recipe's)",
        show_default=False,
    ),
]
RankerOption = Annotated[
    str | None,
    typer.Option(
        "--ranker",
        help="logistic, support, bm25, similarity, similarity:FOLDER of a sentence encoder, classifier:FOLDER"
        " of a cross-encoder, or the folder of a trained ranker. (default: the recipe's)",
        metavar="NAME|FOLDER",
        show_default=False,
    ),
]
RetrieverOption = Annotated[
    str | None,
    typer.Option(
        "--retriever",
        help="What finds sentences of a note in heids: similarity, similarity:FOLDER of a sentence encoder,"
        " bm25, logistic, or the folder of a trained ranker. (default: the recipe's)",
        metavar="NAME|FOLDER",
        show_default=False,
    ),
]
RerankerOption = Annotated[
    str | None,
    typer.Option(
        "--reranker",
        help="What puts found documents (bioasq) or sentences (heids) in order: the folder of a trained"
        " ranker, or classifier:FOLDER of a cross-encoder. (default: the recipe's)",
        metavar="NAME|FOLDER",
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
PartOption = Annotated[
    str | None,
    typer.Option(
        "--part",
        help="Only a part of the questions, such as 1/2. Parts share no relevant document.",
        metavar="N/M",
        show_default=False,
    ),
]
CorpusOption = Annotated[
    Path | None,
    typer.Option(
        "--corpus",
        help="Folder of a corpus of published documents, which timeaware searches.",
        metavar="FOLDER",
        show_default=False,
    ),
]
IndexOption = Annotated[
    Path | None,
    typer.Option(
        "--index",
        help="Folder of an index of vectors over a corpus, for recipes that retrieve by them. Without"
        " --corpus, its own is searched.",
        metavar="FOLDER",
        show_default=False,
    ),
]
ShotsOption = Annotated[
    Path | None,
    typer.Option(
        "--shots",
        help="File of answered questions that bioasq shows as examples, such as a training set of BioASQ."
        " (default: the packaged samples)",
        metavar="FILE",
        show_default=False,
    ),
]
PhaseOption = Annotated[
    Literal["a", "b", "both"] | None,
    typer.Option(
        "--phase",
        help="Of bioasq: a finds documents and snippets, b answers from the snippets that questions come"
        " with, both answers from what was found. (default: the recipe's)",
        show_default=False,
    ),
]
ReaderOption = Annotated[
    str | None,
    typer.Option(
        "--reader",
        help="Who reads passages: llm, or the folder of a classifier for natural language inference."
        " (default: the recipe's)",
        metavar="llm|FOLDER",
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
TaskName = Literal["2025", "2026-1", "2026-2", "2026-3", "2026-4", "bioasq-a", "bioasq-a+", "bioasq-b"]
TaskOption = Annotated[
    TaskName | None,
    typer.Option(
        "--task",
        "-t",
        help="ArchEHR-QA 2025, or a subtask of 2026: 1 question, 2 evidence, 3 answer, 4 links;"
        " or a phase of BioASQ. (default: by the file's shape, which does not tell 2026-1 from 2026-3, nor"
        " bioasq-a+ from bioasq-b)",
        show_default=False,
    ),
]
KeyOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--key",
        help="Key file; repeatable. (default: the run's, or NAME_key.json beside NAME.xml of --cases)",
        metavar="FILE",
        show_default=False,
    ),
]
CasesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--cases",
        help="Case file (.xml, .jsonl; .json of questions) or a folder of them; repeatable."
        " (default: the run's)",
        metavar="FILE",
        show_default=False,
    ),
]
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
CaseIdsOption = Annotated[
    str | None,
    typer.Option("--case-ids", help="Only these cases, such as 1-20,35.", metavar="IDS", show_default=False),
]
BertScoreOption = Annotated[
    Path | None,
    typer.Option(
        "--bertscore-model",
        help="Folder of distilbert-base-uncased.",
        metavar="DIR",
        show_default=False,
        rich_help_panel=_METRICS,
    ),
]
AlignScoreOption = Annotated[
    Path | None,
    typer.Option(
        "--alignscore",
        help="Checkpoint AlignScore-base.ckpt.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=_METRICS,
    ),
]
AlignScoreBackboneOption = Annotated[
    Path | None,
    typer.Option(
        "--alignscore-backbone",
        help="Folder of roberta-base, for AlignScore.",
        metavar="DIR",
        show_default=False,
        rich_help_panel=_METRICS,
    ),
]
QuickUmlsOption = Annotated[
    Path | None,
    typer.Option(
        "--quickumls",
        help="Folder of a QuickUMLS index, for MEDCON.",
        metavar="DIR",
        show_default=False,
        rich_help_panel=_METRICS,
    ),
]
ConceptsOption = Annotated[
    Path | None,
    typer.Option(
        "--concepts",
        help="Your own terms and concepts, a line each parted by a tab: a variant of MEDCON.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=_METRICS,
    ),
]
