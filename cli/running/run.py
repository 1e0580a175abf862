"""`evigraph run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cases.selection import Selection, parse_case_ids, parse_shard
from cli.completion import recipe_names, system_names
from cli.flags import ClusterFlags, ScratchFlags
from cli.options import (
    ChosenCasesOption,
    EffortOption,
    LimitOption,
    ModelOption,
    NewKeyOption,
    PromptOption,
    PromptSetOption,
    ShardOption,
    ThresholdOption,
    VotesOption,
    input_path,
    local_path,
)
from cli.set_values import SetOption, effort_values, prompt_files, recipe_values
from cli.terminal import Result


def run(
    system: Annotated[
        str,
        typer.Argument(
            help="A system; `evigraph recipes` lists them.", metavar="SYSTEM", autocompletion=system_names
        ),
    ],
    cases: Annotated[
        list[Path],
        typer.Argument(
            help="Case files (.xml, .jsonl, .json of PubMedQA and BioASQ) or folders of them; also by URL of"
            " object storage, such as s3://bucket/notes/cases.jsonl.",
            metavar="CASES...",
            parser=input_path,
        ),
    ],
    model: ModelOption = None,
    effort: EffortOption = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            "-r",
            help="Recipe file, or the name of a packaged one. (default: SYSTEM)",
            metavar="NAME|FILE",
            autocompletion=recipe_names,
        ),
    ] = None,
    key: NewKeyOption = None,
    prompt: PromptOption = None,
    prompt_set: PromptSetOption = None,
    votes: VotesOption = None,
    threshold: ThresholdOption = None,
    evidence: Annotated[
        Literal["llm", "ranker", "both"] | None,
        typer.Option(
            help="Who votes on evidence: the model, a ranker alone, or both. (default: the recipe's)"
        ),
    ] = None,
    ranker: Annotated[
        str | None,
        typer.Option(
            help="Ranker that votes on evidence: logistic, support, bm25, similarity, similarity:FOLDER of a"
            " sentence encoder, classifier:FOLDER of a cross-encoder, or the folder of a trained ranker."
            " (default: the recipe's)",
            metavar="NAME|FOLDER",
        ),
    ] = None,
    retriever: Annotated[
        str | None,
        typer.Option(
            help="What retrieves sentences of a note: similarity, similarity:FOLDER of a sentence encoder,"
            " bm25, logistic, or the folder of a trained ranker. (default: the recipe's)",
            metavar="NAME|FOLDER",
        ),
    ] = None,
    reranker: Annotated[
        str | None,
        typer.Option(
            help="What reorders retrieved documents or sentences: the folder of a trained ranker, or"
            " classifier:FOLDER of a cross-encoder. (default: the recipe's)",
            metavar="NAME|FOLDER",
        ),
    ] = None,
    values: SetOption = None,
    demos: Annotated[
        Path | None,
        typer.Option(
            help="Demonstrations that prompts show: the folder of a pool, or a file of answered questions,"
            " such as a training set of BioASQ. (default: the packaged samples)",
            metavar="FOLDER|FILE",
            parser=local_path,
        ),
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Corpus of published documents to search.", metavar="FOLDER")
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(
            help="Index of vectors over a corpus, for recipes that search by vectors. Without --corpus, the"
            " index's own corpus is searched.",
            metavar="FOLDER",
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help="Who reads passages: llm, or the folder of a classifier for natural language inference."
            " (default: the recipe's)",
            metavar="llm|FOLDER",
        ),
    ] = None,
    phase: Annotated[
        Literal["a", "b", "both"] | None,
        typer.Option(
            help="Phase of BioASQ: a finds documents and snippets, b answers from the snippets that questions"
            " come with, both answers from retrieved ones. (default: the recipe's)"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Run folder. (default: a new one in out/)", metavar="FOLDER"),
    ] = None,
    limit: LimitOption = None,
    case_ids: ChosenCasesOption = None,
    shard: ShardOption = None,
    *,
    flags: ClusterFlags,
    publishing: ScratchFlags,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Count the calls and tokens that the run would take, and make none."),
    ] = False,
) -> Result:
    """Run a batch of cases through a graph.

    Everything is checked before the first call: cases, key, recipe, models, demonstrations. Results are
    written as each case ends. Exit code 0: all cases done, or waiting for a person; 1: some failed, a budget
    ended the run, or the first cases were degraded; 2: wrong usage or input; 130: interrupted.

    `--scratch /local` writes the run on a local disk and publishes it in `--out`, which may be on a network
    file system.

    Example: evigraph run tamu cases.xml --model vllm:meta-llama/Llama-3.3-70B-Instruct@http://host:8000/v1
    """
    from cases.formats.note_files import NOTE_SUFFIXES
    from cases.load import find_cases
    from cli.session import run_session
    from graph.recipe import RecipeError, load_recipe, option_fields, override, unused_option
    from graph.recipe import located as located_recipe
    from graph.system import find_system
    from nodes.reading.settings import located_reader
    from prompts.versions import located as located_prompts
    from ranking.rankers.load import located
    from runs.execute.assemble import Request
    from runs.execute.sessions import start
    from serving.protocol.model_name import assign_roles

    origin = recipe or system
    schema = find_system(system).recipe
    loaded = load_recipe(origin)
    if loaded.system != system:
        raise RecipeError(f"recipe {origin} is for system {loaded.system!r}, not {system!r}")
    given = {
        "evidence": evidence,
        "ranker": None if ranker is None else located(ranker),
        "retriever": None if retriever is None else located(retriever),
        "reranker": None if reranker is None else located(reranker),
        "votes": votes,
        "threshold": threshold,
        "reader": None if reader is None else located_reader(reader),
        "phase": phase,
    }
    fields = option_fields(schema)
    overrides: dict[str, Any] = effort_values(effort or (), loaded.effort)
    if prompt_set is not None:
        overrides["prompts"] = located_prompts(prompt_set)
    for option, value in given.items():
        if value is not None:
            if option not in fields:
                raise RecipeError(f"recipes of {system!r} have no field for --{option}; leave it out")
            overrides[fields[option]] = value
    for field, value in recipe_values(values or ()).items():
        if field in overrides:
            raise typer.BadParameter(f"--set {field} is also set by another option; give one")
        overrides[field] = value
    wanted = override(loaded, overrides, origin)
    for option, value in given.items():
        if value is not None and (need := unused_option(wanted, option)):
            raise typer.BadParameter(f"--{option} needs {need}")
    places = {"demos": demos, "corpus": corpus, "index": index}
    # Refused before a model is asked for: the next command is another one.
    find_cases([path for path in cases if path.suffix.lower() in NOTE_SUFFIXES])
    request = Request(
        recipe=wanted,
        recipe_origin=located_recipe(origin),
        inputs=tuple(cases),
        keys=tuple(key or ()),
        models=assign_roles(model or [], loaded.models),
        overrides=overrides,
        places={name: path for name, path in places.items() if path is not None},
        selection=selection_of(case_ids, limit, shard),
        prompt_files=prompt_files(prompt or ()),
    )
    options = publishing.with_options(flags.options("run"))
    if dry_run:
        from cli.running.dry_run import rehearse

        return rehearse(request, options)
    return run_session(
        lambda stop, watcher: start(request, out, options, stop=stop, watcher=watcher),
        command="run",
        detached=flags.detach,
    )


def selection_of(case_ids: str | None, limit: int | None, shard: str | None) -> Selection:
    """Which cases the flags choose.

    Raises:
        typer.BadParameter: One of them cannot be read.
        InputError: The file of ids.
    """
    try:
        ids = None if case_ids is None else parse_case_ids(case_ids)
        return Selection(ids, limit, None if shard is None else parse_shard(shard))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
