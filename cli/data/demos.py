"""`evigraph demos`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cases.texts import quoted
from cli.flags import DataFlags
from cli.options import (
    EffortOption,
    EmbeddingOption,
    ModelOption,
    NewKeyOption,
    input_path,
    local_path,
    run_folder,
)
from cli.set_values import effort_values
from cli.terminal import Result, plural, print_line, print_message, print_rows

if TYPE_CHECKING:
    from retrieval.pools.neighbours import Neighbour
    from retrieval.pools.pool import DemonstrationPool

demos = typer.Typer(
    no_args_is_help=True, help="Pools of demonstrations: annotated cases for few-shot prompts."
)

PoolArgument = Annotated[
    Path | None,
    typer.Argument(help="A pool's folder. (default: the packaged sample pool)", parser=local_path),
]


@demos.command("build")
def build(
    cases: Annotated[
        list[Path],
        typer.Argument(
            help="Annotated case files or folders; also by URL.", metavar="CASES...", parser=input_path
        ),
    ],
    to: Annotated[Path, typer.Option(help="Folder of the pool.")],
    key: NewKeyOption = None,
    embedding: EmbeddingOption = "embedded:minilm",
    model: ModelOption = None,
    effort: EffortOption = None,
    source: Annotated[
        Literal["gold", "weak"] | None,
        typer.Option(
            help="Whether people or a model labelled the cases. (default: as the key says for each)"
        ),
    ] = None,
    *,
    data: DataFlags,
) -> None:
    """Build a pool from cases with labels and answers.

    Where a case has no intent, --model classifies it; without --model such a case is found by similarity
    alone.

    Example: evigraph demos build dev/archehr-qa.xml --key dev/archehr-qa_key.json --to pool
    """
    import asyncio

    from cli.progress import progress
    from runs.execute.demonstrations import build_from_files

    with progress() as shown:
        built = asyncio.run(
            build_from_files(
                *(cases, key or [], to),
                embedding=embedding,
                models=model or [],
                effort=effort_values(effort or (), {}).get("effort", {}).get("classify"),
                source=source,
                report=shown.notify,
            )
        )
    without = f" ({built.without_intent} without an intent)" if built.without_intent else ""
    print_line(f"{plural(built.count, 'demonstration')}{without} in {to}")
    print_line(f"next: evigraph demos list {quoted(to)}")
    print_line(f"      evigraph run tamu CASES... --model STRING --demos {quoted(to)}")


@demos.command("add")
def add(
    pool: PoolArgument = None,
    *,
    from_reviews: Annotated[
        list[Path],
        typer.Option(help="A run with reviewed cases; repeatable.", metavar="RUN", parser=run_folder),
    ],
    to: Annotated[Path, typer.Option(help="Folder of the new pool.")],
    embedding: EmbeddingOption = "embedded:minilm",
    data: DataFlags,
) -> None:
    """Make a new pool from an old one and the reviewed cases of runs.

    A reviewed case replaces the same case of the old pool; no case is shown to itself. The old pool stays as
    it is, because runs refer to it.

    Example: evigraph demos add pool --from-reviews out/2026-11-21T10-15-tamu-ab12 --to pool-2
    """
    import asyncio

    from runs.execute.demonstrations import add_reviewed
    from runs.record.audit import record_if_possible

    built = asyncio.run(add_reviewed(pool, from_reviews, to, embedding=embedding, report=print_message))
    for run in from_reviews:
        record_if_possible(run, "exported", what="reviewed cases", to=str(to))
    print_line(f"{plural(built.count, 'demonstration')}, {built.reviewed} of them from reviews, in {to}")
    if built.replaced:
        print_line(f"replaced by their reviews: {_some(built.replaced)}")
    print_line(f"next: evigraph run tamu CASES... --model STRING --demos {quoted(to)}")


@demos.command("label")
def label(
    run: Annotated[Path, typer.Argument(help="A run of weak_labels.", metavar="RUN", parser=run_folder)],
    to: Annotated[Path, typer.Option(help="Key file to write.")],
) -> None:
    """Write the weak labels of a weak_labels run as a key file.

    The key holds every case that the run labelled from its clinician's answer, marked as weak. Cases that
    people have labelled are left out.

    Example: evigraph demos label out/2026-11-21T10-15-weak_labels-ab12 --to weak_key.json
    """
    from runs.execute.demonstrations import write_weak_key
    from runs.record.audit import record_if_possible
    from runs.record.folder import RunFolder

    folder, named = RunFolder(run), quoted(run)
    written = write_weak_key(folder, to)
    record_if_possible(run, "exported", what="weak labels", to=str(to))
    print_line(f"{plural(written.labelled, 'case')} with weak labels in {to}")
    if written.nothing_essential:
        print_line(f"without an essential sentence: {_some(written.nothing_essential)}")
    if written.left_alone:
        print_line(f"left out, labelled by people: {_some(written.left_alone)}")
    if written.failed:
        print_line(f"failed: {_some(written.failed)} (evigraph retry {named})")
    if written.not_run:
        print_line(f"not run yet: {plural(written.not_run, 'case')} (evigraph resume {named})")
    cases = shlex.join(folder.manifest.inputs.paths)
    print_line(f"next: evigraph demos build {cases} --key {quoted(to)} --to pool")


@demos.command("list")
def list_demonstrations(
    pool: PoolArgument = None,
    embedding: EmbeddingOption = "embedded:minilm",
    *,
    data: DataFlags,
) -> Result:
    """List the demonstrations of a pool with their intents.

    Example: evigraph demos list pool
    """
    import asyncio

    opened = asyncio.run(_open(pool, embedding))
    return _result(opened.neighbours(), with_distance=False)


@demos.command("query")
def query(
    text: Annotated[str, typer.Argument(help="A question, or a question and a narrative.")],
    pool: PoolArgument = None,
    embedding: EmbeddingOption = "embedded:minilm",
    intent: Annotated[str | None, typer.Option(help="Only this primary intent.")] = None,
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="How many demonstrations.")] = 5,
    *,
    data: DataFlags,
) -> Result:
    """Show the demonstrations nearest to a text.

    Example: evigraph demos query "Why was a drain placed instead of surgery?"
    """
    import asyncio

    async def find() -> list[Neighbour]:
        opened = await _open(pool, embedding)
        return await opened.nearest("answer" if intent else "evidence", text, count, intent=intent)

    return _result(asyncio.run(find()), with_distance=True)


def _some(case_ids: tuple[str, ...]) -> str:
    more = f" and {len(case_ids) - 10} more" if case_ids[10:] else ""
    return f"{', '.join(case_ids[:10])}{more}"


async def _open(pool: Path | None, embedding: str) -> DemonstrationPool:
    from graph.note_resources import open_pool
    from serving.policy.gate import hold_for

    hold_for([] if pool is None else [pool])
    return await open_pool(pool, embedding, print_message)


def _result(found: list[Neighbour], *, with_distance: bool) -> Result:
    from dataclasses import asdict

    heads = ["case", *(["distance"] if with_distance else []), "intent", "secondary intent", "source"]
    rows = [
        [
            one.case_id,
            *([f"{one.distance:.4f}"] if with_distance else []),
            one.intent or "-",
            one.secondary_intent or "-",
            one.source,
        ]
        for one in found
    ]
    return Result({"demonstrations": [asdict(one) for one in found]}, lambda: print_rows(heads, rows))
