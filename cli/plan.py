"""`evigraph plan`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.flags import DataFlags
from cli.options import JsonOption

plan = typer.Typer(
    no_args_is_help=True, help="Job files that run a batch of cases in shards on a cluster, and merge them."
)

RunArguments = Annotated[
    list[str],
    typer.Argument(
        help="After two dashes, what `evigraph run` is given: system, cases and options, without --out and"
        " --shard.",
        metavar="-- SYSTEM CASES... [OPTIONS]",
    ),
]
ShardsOption = Annotated[
    int, typer.Option("--shards", min=1, max=1000, help="Number of shards.", metavar="N")
]
PlanOption = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        help="Folder of the job files, of the shards and of the merged run.",
        metavar="FOLDER",
    ),
]
SetupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--setup",
        help="Line of shell that comes first in each job, as it stands, such as 'module load python'."
        " Repeatable.",
        metavar="LINE",
    ),
]
ParallelOption = Annotated[
    int | None, typer.Option("--parallel", min=1, help="Most shards at once.", metavar="N")
]

_NOT_REPEATED = {"recipe", "as_json", "policy", "allow_hosted"}
"""Flags of `run` that a resume takes from the run's own record."""


@plan.command()
def slurm(
    arguments: RunArguments,
    shards: ShardsOption,
    out: PlanOption,
    time: Annotated[
        str, typer.Option("--time", help="Time limit of a task; a task that reaches it is resumed.")
    ] = "08:00:00",
    parallel: ParallelOption = None,
    sbatch: Annotated[
        list[str] | None,
        typer.Option(
            "--sbatch",
            help="Further option of sbatch, such as --sbatch=--partition=gpu. Repeatable.",
            metavar="OPTION",
        ),
    ] = None,
    setup: SetupOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an array script of SLURM with a task for each shard, and the merge that follows it.

    Two minutes before its time limit a task stops its run and is requeued; it then resumes. A task on a lost
    node is requeued by SLURM. Nothing is submitted: `submit.sh` does that.

    Example: evigraph plan slurm --shards 100 --out night -- tamu cases.jsonl --model
    vllm:NAME@http://gpu1:8000/v1
    """
    from runs.shard_jobs import Slurm

    run = _sharded(arguments, shards, out, setup, demand_cases=True)
    job = Slurm(Path.cwd(), time, parallel, tuple(sbatch or ()))
    files = _checked(lambda: job.files(run))
    _write(out, files, [f"bash {shlex.quote(str(out / 'submit.sh'))}"], as_json=as_json)


@plan.command()
def kubernetes(
    arguments: RunArguments,
    shards: ShardsOption,
    out: PlanOption,
    image: Annotated[str, typer.Option("--image", help="Container image with evigraph.")],
    claim: Annotated[
        str,
        typer.Option(
            "--claim",
            help="PersistentVolumeClaim that all pods can write (ReadWriteMany); it holds the cases.",
        ),
    ],
    mount: Annotated[
        str,
        typer.Option("--mount", help="Where it is mounted. Paths of the run are relative to it."),
    ] = "/data",
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the job. (default: that of --out)")
    ] = None,
    parallel: ParallelOption = 8,
    retries: Annotated[
        int, typer.Option("--retries", min=0, help="How often a shard is begun again after a failure.")
    ] = 6,
    cpu: Annotated[str, typer.Option("--cpu", help="Processors of a pod.")] = "2",
    memory: Annotated[str, typer.Option("--memory", help="Memory of a pod.")] = "4Gi",
    gpus: Annotated[int, typer.Option("--gpus", min=0, help="NVIDIA GPUs of a pod.")] = 0,
    secret: Annotated[
        str | None,
        typer.Option("--secret", help="Secret whose keys become variables, such as OPENAI_API_KEY."),
    ] = None,
    setup: SetupOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an Indexed Job of Kubernetes with a pod for each shard, and a job for the merge.

    A pod that is evicted or killed is started again, and resumes its shard. Nothing is applied.

    Example: evigraph plan kubernetes --shards 100 --out night --image evigraph:0.1.0 --claim notes --
    tamu cases.jsonl --model vllm:NAME@http://vllm:8000/v1
    """
    import yaml

    from runs.shard_jobs import Kubernetes

    run = _sharded(arguments, shards, out, setup, demand_cases=False)
    named = name or re.sub(r"[^a-z0-9]+", "-", f"evigraph-{out.name}".lower()).strip("-")
    job = Kubernetes(named, image, claim, mount, parallel or shards, retries, cpu, memory, gpus, secret)
    manifests = _checked(lambda: job.manifests(run))
    files = {
        file: yaml.dump(manifest, Dumper=_block_dumper(), sort_keys=False, allow_unicode=True)
        for file, manifest in manifests.items()
    }
    first, second = (shlex.quote(str(out / file)) for file in files)
    following = [
        f"kubectl apply -f {first}",
        f"kubectl wait --for=condition=complete --timeout=-1s job/{named} && kubectl apply -f {second}",
    ]
    _write(out, files, following, as_json=as_json)


def _checked(make: Any) -> Any:
    from runs.shard_jobs import JobError

    try:
        return make()
    except JobError as error:
        raise typer.BadParameter(str(error)) from None


def _sharded(
    arguments: list[str], shards: int, out: Path, setup: list[str] | None, *, demand_cases: bool
) -> Any:
    """The run, after all that can be known to be wrong has been refused: an array fails a thousand times.

    Raises:
        typer.BadParameter, InputError, RecipeError, ModelError: What `evigraph run` would refuse.
    """
    from cases.copies import url_of
    from cases.errors import InputError
    from cases.load import find_cases
    from cli.run import selection_of
    from cli.terminal import print_message
    from graph.recipe import load_recipe
    from runs.shard_jobs import ShardedRun
    from serving.model_name import assign_roles
    from serving.policy import PolicyError

    context, session = _as_run(arguments)
    given = context.params
    loaded = load_recipe(given["recipe"] or given["system"])
    assign_roles(given["model"] or [], loaded.models)
    chosen = selection_of(given["case_ids"], given["limit"], None)
    by_url = any(url_of(path) is not None for path in given["cases"])
    if demand_cases or by_url or all(path.exists() for path in given["cases"]):
        try:
            if by_url:
                DataFlags(policy=given["policy"], allow_hosted=given["allow_hosted"]).apply()
            find_cases(given["cases"], given["key"] or (), chosen).check()
        except (InputError, PolicyError) as error:
            if demand_cases or not by_url:
                raise
            # Credentials may be those of pods alone.
            print_message(f"the cases were not checked: {error}", "yellow", soft_wrap=True)
    return _checked(lambda: ShardedRun(tuple(arguments), tuple(session), shards, out, tuple(setup or ())))


def _as_run(arguments: list[str]) -> tuple[Any, list[str]]:
    """The arguments as `evigraph run` reads them, and those that a resume is given again."""
    from typer.main import get_group

    from cli.main import app

    group = get_group(app)
    parent = typer.Context(group, info_name="evigraph")
    command = group.get_command(parent, "run")
    resume = group.get_command(parent, "resume")
    assert command is not None and resume is not None
    context = command.make_context("run", list(arguments), parent=parent)
    repeated = {one.name for one in resume.params} - _NOT_REPEATED
    session = []
    for one in command.params:
        source = context.get_parameter_source(one.name or "")
        if source is None or source.name != "COMMANDLINE":
            continue
        if one.name in ("out", "shard", "dry_run", "as_json"):
            raise typer.BadParameter(f"{one.opts[0]} after the two dashes: the plan gives it itself")
        if one.name in repeated:
            session += _words(one, context.params[one.name])
    return context, session


def _words(option: Any, value: Any) -> list[str]:
    """An option as it is written."""
    if isinstance(value, bool):
        return [option.opts[0] if value else option.secondary_opts[0]]
    values = value if isinstance(value, list | tuple) else [value]
    return [word for one in values for word in (option.opts[0], str(one))]


def _block_dumper() -> Any:
    """Texts of several lines stand as such, so that a person can read the script."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            """Labels that stand twice are written twice."""
            return True

    def represent(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, represent)
    return Dumper


def _write(out: Path, files: dict[str, str], following: list[str], *, as_json: bool) -> None:
    from cases.files import write_atomically
    from cli.terminal import print_json, print_line

    if (out / "shards").exists() or (out / "run").exists():
        raise typer.BadParameter(
            f"--out: {out} has shards or a run of an earlier plan; choose another folder"
        )
    (out / "log").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_atomically(out / name, [text.encode()])
    paths = [str(out / name) for name in files]
    if as_json:
        print_json({"files": paths, "next": following})
        return
    for path in paths:
        print_line(f"wrote   {path}", soft_wrap=True)
    for command in following:
        print_line(f"next    {command}", soft_wrap=True)
