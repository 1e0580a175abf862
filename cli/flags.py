"""Groups of flags that several commands share, and how a command takes them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from cli.terminal import Result, emit

if TYPE_CHECKING:
    from evals.metrics.text_metric import MetricResources
    from runs.execute.batch import Options
    from serving.protocol.limits import Limits

_DATA = "Data policy"
_SERVERS = "Servers"
_BUDGET = "Budget"
_CLUSTER = "Clusters"
_BATCHES = "Batches (models named batch:...)"
_SCRATCH = "Scratch disk"
_METRICS = "Metrics that need weights or a licence"
_JsonOption = Annotated[bool, typer.Option("--json", help="Print only one JSON object.")]


@dataclass(frozen=True, kw_only=True)
class DataFlags:
    """Allowed destinations of the data's texts."""

    policy: Annotated[
        str | None,
        typer.Option(
            help="Data policy: a file, or physionet. (default: policy.yaml next to the cases, else in the"
            " user's configuration)",
            metavar="FILE|NAME",
            rich_help_panel=_DATA,
        ),
    ] = None
    allow_hosted: Annotated[
        bool,
        typer.Option(
            "--allow-hosted",
            help="For data without a policy: texts of cases may go to hosts outside of private networks.",
            rich_help_panel=_DATA,
        ),
    ] = False

    def apply(self) -> None:
        """Let the gate know before the command begins.

        Raises:
            PolicyError: The policy cannot be read.
        """
        if self.policy is not None or self.allow_hosted:
            from serving.policy.gate import choose

            choose(self.policy, allow_hosted=self.allow_hosted)


@dataclass(frozen=True, kw_only=True)
class RequestFlags(DataFlags):
    """How servers are asked."""

    max_connections: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most concurrent requests to each server. (default: 128 to OpenAI-compatible"
            " servers, 64 to others)",
            rich_help_panel=_SERVERS,
        ),
    ] = None
    start_connections: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Concurrent requests at the start; the number adapts from there. (default: 16 to"
            " OpenAI-compatible servers, 8 to others)",
            rich_help_panel=_SERVERS,
        ),
    ] = None
    rpm: Annotated[
        int | None,
        typer.Option(min=1, help="Most requests a minute to each server.", rich_help_panel=_SERVERS),
    ] = None
    tpm: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most tokens a minute for each server: those of prompts, and those that replies may take.",
            rich_help_panel=_SERVERS,
        ),
    ] = None
    max_retries: Annotated[
        int | None,
        typer.Option(
            min=0, help="Retries of a failed request; 0 means none. (default: 4)", rich_help_panel=_SERVERS
        ),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="Seconds to wait for a complete reply. (default: 600)", rich_help_panel=_SERVERS
        ),
    ] = None
    max_outage: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds to wait for a server that does not respond, such as while it restarts; then its"
            " calls fail. (default: 120)",
            rich_help_panel=_SERVERS,
        ),
    ] = None
    probe: Annotated[
        bool,
        typer.Option(
            help="Probe server capabilities before the run.",
            rich_help_panel=_SERVERS,
        ),
    ] = True

    keep_thinking: Annotated[
        bool | None,
        typer.Option(
            "--keep-thinking",
            help="Keep the text of models' thinking in the journal, if the service returns it.",
            rich_help_panel=_SERVERS,
        ),
    ] = None

    @property
    def given_limits(self) -> dict[str, Any]:
        from serving.protocol.limits import Limits

        values = {one.name: getattr(self, one.name) for one in fields(Limits)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def limits(self) -> Limits:
        """All limits, with the defaults of those that the user does not name."""
        from serving.protocol.limits import Limits

        return Limits(**self.given_limits)


@dataclass(frozen=True, kw_only=True)
class BatchFlags(RequestFlags):
    """How a batch of cases is run."""

    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Concurrent cases. (default: as many as connections)")
    ] = None


@dataclass(frozen=True, kw_only=True)
class SessionFlags(BatchFlags):
    """Options for continuing and stopping a batch of cases."""

    max_tokens_total: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most tokens that all sessions of the run may read and write; then it stops and can be"
            " resumed.",
            rich_help_panel=_BUDGET,
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Most that all sessions of the run may cost, by --prices; then it stops and can be resumed.",
            rich_help_panel=_BUDGET,
        ),
    ] = None
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going",
            help="Go on even if no reply to some step could be used in any of the first five cases.",
        ),
    ] = False
    prices: Annotated[
        Path | None,
        typer.Option(
            help="YAML file of prices per million tokens, by model.", metavar="FILE", rich_help_panel=_BUDGET
        ),
    ] = None

    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            help="End once everything possible is submitted; `evigraph resume` continues.",
            rich_help_panel=_BATCHES,
        ),
    ] = False
    poll: Annotated[
        float,
        typer.Option(
            min=0.01,
            help="Seconds between looks at batches that are away; the pause grows while nothing ends.",
            rich_help_panel=_BATCHES,
        ),
    ] = 30.0
    keep_remote: Annotated[
        bool,
        typer.Option(
            "--keep-remote",
            help="Leave uploaded and result files at the provider.",
            rich_help_panel=_BATCHES,
        ),
    ] = False

    def options(self, command: str, *, online: bool = False) -> Options:
        """The options of a batch; `online` asks one request at a time where a model answers in batches.

        Raises:
            typer.BadParameter: A new run has a limit to its cost and no prices.
            ModelError: The price file.
        """
        from runs.execute.batch import Options
        from runs.execute.rounds import BatchOptions
        from runs.record.manifest import BudgetCaps
        from serving.protocol.budget import load_prices

        if command == "run" and self.max_cost is not None and self.prices is None:
            raise typer.BadParameter("--max-cost needs --prices FILE")
        prices = load_prices(self.prices) if self.prices is not None else {}
        budget = BudgetCaps(max_tokens=self.max_tokens_total, max_cost=self.max_cost, prices=prices)
        batches = BatchOptions(self.detach, self.poll, self.keep_remote, online)
        options = Options(command, self.concurrency, self.limits, budget, self.probe, batches)
        return replace(options, given_limits=self.given_limits, keep_going=self.keep_going)


@dataclass(frozen=True, kw_only=True)
class ClusterFlags(SessionFlags):
    """Options for the machines of a batch of cases."""

    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            help="Run the cases on Ray: ray for the cluster of this job (RAY_ADDRESS), or else a new one on"
            " this machine; ray://HOST:PORT for the cluster with this head. (default: in this process)",
            metavar="ray[://HOST:PORT]",
            rich_help_panel=_CLUSTER,
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --on, processes that run cases. Limits of requests and of the budget are those of all"
            " together. (default: one on each node, now and later; one a processor of a new cluster)",
            metavar="N",
            rich_help_panel=_CLUSTER,
        ),
    ] = None

    def options(self, command: str, *, online: bool = False) -> Options:
        """The options of a batch.

        Raises:
            typer.BadParameter: The cluster cannot be read too, or there is none for its workers.
        """
        from runs.on_ray.cluster import parse_cluster

        options = super().options(command, online=online)
        if self.on is None:
            if self.workers is not None:
                raise typer.BadParameter("--workers needs --on ray")
            return options
        try:
            return replace(options, on=parse_cluster(self.on, self.workers))
        except ValueError as error:
            raise typer.BadParameter(f"--on: {error}") from None


@dataclass(frozen=True, kw_only=True)
class ScratchFlags:
    """Options for the folder of a session."""

    scratch: Annotated[
        Path | None,
        typer.Option(
            help="Write the run in a private folder below this one, such as on the local disk of a node, and"
            " publish it whole in the run's folder: now and then, and when the session ends.",
            metavar="DIR",
            rich_help_panel=_SCRATCH,
        ),
    ] = None
    publish_every: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="With --scratch, minutes between publications while cases run; 0 for one at the end alone."
            " (default: 10)",
            metavar="MINUTES",
            rich_help_panel=_SCRATCH,
        ),
    ] = None
    scratch_lost: Annotated[
        bool,
        typer.Option(
            "--scratch-lost",
            help="Continue from the last published state if a killed session's folder is lost.",
            rich_help_panel=_SCRATCH,
        ),
    ] = False

    def with_options(self, options: Options) -> Options:
        """The options of a batch with these.

        Raises:
            typer.BadParameter: `--scratch` is missing.
        """
        from runs.move.scratch import EVERY_MINUTES, Scratch

        if self.publish_every is not None and self.scratch is None:
            raise typer.BadParameter("--publish-every needs --scratch DIR")
        if self.scratch is None and not self.scratch_lost:
            return options
        every = EVERY_MINUTES if self.publish_every is None else self.publish_every
        return replace(options, scratch=Scratch(self.scratch, every, self.scratch_lost))


@dataclass(frozen=True, kw_only=True)
class MetricFlags:
    """Options for the weights of metrics."""

    bertscore_model: Annotated[
        Path | None,
        typer.Option(help="Folder of distilbert-base-uncased.", metavar="DIR", rich_help_panel=_METRICS),
    ] = None
    alignscore: Annotated[
        Path | None,
        typer.Option(help="Checkpoint AlignScore-base.ckpt.", metavar="FILE", rich_help_panel=_METRICS),
    ] = None
    alignscore_backbone: Annotated[
        Path | None,
        typer.Option(help="Folder of roberta-base, for AlignScore.", metavar="DIR", rich_help_panel=_METRICS),
    ] = None
    quickumls: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a QuickUMLS index, for MEDCON.", metavar="DIR", rich_help_panel=_METRICS
        ),
    ] = None
    concepts: Annotated[
        Path | None,
        typer.Option(
            help="File of your own terms and concepts, one tab-separated pair a line, for a variant of"
            " MEDCON.",
            metavar="FILE",
            rich_help_panel=_METRICS,
        ),
    ] = None

    @property
    def resources(self) -> MetricResources:
        from evals.metrics.text_metric import MetricResources

        return MetricResources(
            bertscore_model=self.bertscore_model,
            alignscore=self.alignscore,
            alignscore_backbone=self.alignscore_backbone,
            quickumls=self.quickumls,
            concepts=self.concepts,
        )


def spread(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command as typer takes it.

    Its parameters of the classes above are replaced by the flags of their fields. One that returns a `Result`
    has the flag `--json`, and prints its result.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: one.annotation for name, one in signature.parameters.items() if is_dataclass(one.annotation)
    }
    returned = signature.return_annotation
    has_result = Result in (returned, *get_args(returned))
    if not groups and not has_result:
        return command
    parameters = []
    for name, one in signature.parameters.items():
        if name not in groups:
            parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        parameters += [
            inspect.Parameter(
                of.name, inspect.Parameter.KEYWORD_ONLY, default=of.default, annotation=hints[of.name]
            )
            for of in fields(groups[name])
        ]
    if has_result:
        parameters.append(
            inspect.Parameter(
                "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_JsonOption
            )
        )

    @functools.wraps(command)
    def spread_out(**given: Any) -> None:
        as_json = given.pop("as_json", False)
        for name, group in groups.items():
            given[name] = made = group(**{of.name: given.pop(of.name) for of in fields(group)})
            if isinstance(made, DataFlags):
                made.apply()
        result = command(**given)
        if isinstance(result, Result):
            emit(result, as_json=as_json)

    spread_out.__dict__["__signature__"] = signature.replace(parameters=parameters, return_annotation=None)
    return spread_out
