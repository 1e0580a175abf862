"""`evigraph run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import (
    ConcurrencyOption,
    CorpusOption,
    DemosOption,
    EvidenceOption,
    IndexOption,
    JsonOption,
    MaxConnectionsOption,
    MaxCostOption,
    MaxOutageOption,
    MaxTokensTotalOption,
    ModelOption,
    PhaseOption,
    PricesOption,
    ProbeOption,
    RankerOption,
    ReaderOption,
    RerankerOption,
    RetriesOption,
    RetrieverOption,
    RpmOption,
    ShotsOption,
    StartConnectionsOption,
    ThresholdOption,
    TimeoutOption,
    TpmOption,
    VotesOption,
)

if TYPE_CHECKING:
    import asyncio

    from cli.progress import BatchProgress
    from runs.folder import RunFolder


def run(
    system: Annotated[
        str,
        typer.Argument(
            help="Which graph: tamu, heids, timeaware, bioasq or weak_labels.",
            metavar="SYSTEM",
            show_default=False,
        ),
    ],
    cases: Annotated[
        list[Path],
        typer.Argument(
            help="Case files (.xml, .jsonl, .json of PubMedQA and BioASQ) or folders of them.",
            metavar="CASES...",
            show_default=False,
        ),
    ],
    model: ModelOption = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            "-r",
            help="Recipe file, or the name of a packaged one. (default: SYSTEM)",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        list[Path] | None,
        typer.Option("--key", help="Key file. (default: NAME_key.json beside NAME.xml)", show_default=False),
    ] = None,
    votes: VotesOption = None,
    threshold: ThresholdOption = None,
    evidence: EvidenceOption = None,
    ranker: RankerOption = None,
    retriever: RetrieverOption = None,
    reranker: RerankerOption = None,
    demos: DemosOption = None,
    corpus: CorpusOption = None,
    index: IndexOption = None,
    reader: ReaderOption = None,
    phase: PhaseOption = None,
    shots: ShotsOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Run folder. (default: a new one in out/)", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only the first N cases.", show_default=False)
    ] = None,
    concurrency: ConcurrencyOption = None,
    max_connections: MaxConnectionsOption = None,
    start_connections: StartConnectionsOption = None,
    rpm: RpmOption = None,
    tpm: TpmOption = None,
    max_retries: RetriesOption = 4,
    timeout: TimeoutOption = 600.0,
    max_outage: MaxOutageOption = 120.0,
    probe: ProbeOption = True,
    max_tokens_total: MaxTokensTotalOption = None,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Count the calls and tokens that the run would take, and make none."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a batch of cases through a graph.

    Everything is checked before the first call: cases, key, recipe, models, demonstrations. Results are
    written as each case ends. Exit code 0: all cases done, or waiting for a person; 1: some failed, or a
    budget ended the run; 2: wrong usage or input; 130: interrupted.

    Example: evigraph run tamu cases.xml --model vllm:meta-llama/Llama-3.3-70B-Instruct@http://host:8000/v1
    """
    from cli.batch_options import batch_options
    from cli.session import run_session
    from graph.recipe import RecipeError, load_recipe, override
    from graph.systems import build_system
    from nodes.reading.literature_settings import located_reader
    from ranking.load import located
    from runs.assemble import Request
    from runs.sessions import start
    from serving.limits import Limits
    from serving.model_name import assign_roles

    nodes = build_system(system).nodes
    if phase is not None and "adopt_snippets" not in nodes:
        raise typer.BadParameter(f"--phase is for systems with phases, such as bioasq; {system} has none")
    origin = recipe or system
    loaded = load_recipe(origin)
    if loaded.system != system:
        raise RecipeError(f"recipe {origin} is for system {loaded.system!r}, not {system!r}")
    reranking = "retrieval" if "retrieve_sentences" in nodes else "documents"
    given = {
        "evidence.voters": evidence,
        "evidence.ranker": None if ranker is None else located(ranker),
        "retrieval.retriever": None if retriever is None else located(retriever),
        f"{reranking}.reranker": None if reranker is None else located(reranker),
        "evidence.votes": votes,
        "evidence.threshold": threshold,
        "reading.reader": None if reader is None else located_reader(reader),
        "documents.phase": phase,
    }
    overrides = {field: value for field, value in given.items() if value is not None}
    wanted = override(loaded, overrides, origin)
    if ranker is not None and not wanted.ranks:
        raise typer.BadParameter("--ranker needs --evidence ranker, or both")
    if reranker is not None and "rerank_documents" in nodes and not wanted.documents.finds:
        raise typer.BadParameter("--reranker needs --phase a, or both")
    if shots is not None and not wanted.exact.shots:
        raise typer.BadParameter("--shots needs a recipe with exact.shots above 0")
    request = Request(
        recipe=wanted,
        recipe_origin=str(Path(origin).resolve()) if Path(origin).is_file() else origin,
        inputs=tuple(cases),
        keys=tuple(key or ()),
        models=assign_roles(model or [], loaded.models),
        overrides=overrides,
        demonstrations=demos,
        corpus=corpus,
        index=index,
        shots=shots,
        limit=limit,
    )
    options = batch_options(
        "run",
        concurrency=concurrency,
        limits=Limits(max_connections, start_connections, rpm, tpm, max_retries, timeout, max_outage),
        probe=probe,
        max_tokens_total=max_tokens_total,
        max_cost=max_cost,
        prices=prices,
    )
    if dry_run:
        from cli.dry_run import print_dry_run

        print_dry_run(request, options, as_json=as_json)
        return

    async def work(stop: asyncio.Event, progress: BatchProgress) -> RunFolder:
        return await start(request, out, options, stop=stop, watcher=progress)

    run_session(work, as_json=as_json)
