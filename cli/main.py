"""`evigraph`: the commands by group, and the one place where an error becomes a line."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group
from typer.models import CommandInfo

from cli.completion import complete
from cli.flags import spread

if TYPE_CHECKING:
    from rich.console import RenderableType

_PANELS = {
    "Run cases": (
        *("init", "ask", "run", "resume", "retry", "status", "rerun", "review", "check", "purge"),
        *("merge", "api"),
    ),
    "Look at runs and systems": (
        *("show", "runs", "view", "users", "audit"),
        *("export", "card", "graph", "recipes", "prompts"),
    ),
    "Measure": (
        *("score", "compare", "analyse", "calibrate", "experiment", "optimise"),
        *("submit", "validate", "bench"),
    ),
    "Data and rankers": (
        *("cases", "scan", "demos", "corpus", "index", "pairs"),
        *("train", "rank", "rankings", "verify"),
    ),
    "Models": ("models", "serve"),
}
_COMMANDS = [name for names in _PANELS.values() for name in names]
_ROOMS = {
    "Run cases": "running",
    "Look at runs and systems": "looking",
    "Measure": "measuring",
    "Data and rankers": "data",
    "Models": "models",
}
"""Packages of the commands, by panel."""

_BESIDE = {"retry": "resume", "graph": "recipes"}
"""Commands that share a module with another; every other is in the module of its name."""


_DEFAULTS = {"review": "case"}
"""The subcommand of a group that may be left out."""


class Group(TyperGroup):
    """A group that names the nearest command for a typo."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the subcommand that may be left out."""
        return super().parse_args(ctx, self.with_default(args))

    def with_default(self, args: list[str]) -> list[str]:
        """Arguments with the subcommand that was left out."""
        default = _DEFAULTS.get(self.name or "")
        left_out = default is not None and args and args[0] not in (*self.commands, "--help", "-h")
        return [default, *args] if default is not None and left_out else args

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first argument names, or one line on standard error."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            typer.echo(f"evigraph: unknown command {args[0]!r}; {hint}", err=True)
            raise typer.Exit(2)
        return super().resolve_command(ctx, args)


class _Commands(Group):
    """All commands. A module is imported when its command runs, or when the summaries of all are printed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, in the order of the panels."""
        return _COMMANDS.copy()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command."""
        return _command(cmd_name) if cmd_name in _COMMANDS else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the commands by panel; typer's own formatter takes as long to import as all the rest."""
        from rich.console import Console
        from rich.padding import Padding

        options = {
            "--help, -h": "Show this message, or a command's.",
            "--version": "Show the version.",
            "--install-completion": "Complete commands, runs, recipes and models with Tab in this shell.",
            "--show-completion": "Print what that installs.",
            "--verbose": "Log every failed attempt and change of limits. May stand anywhere.",
            "--debug": "Show tracebacks. May stand anywhere.",
        }
        boxes = [_panel("Options", options)]
        for panel, names in _PANELS.items():
            boxes.append(_panel(panel, {name: _summary(_imported(name)) for name in names}))
        usage = Padding(f"Usage: {ctx.command_path} [OPTIONS] COMMAND [ARGS]...", (1, 1))
        summary, example = Padding(self.help or "", (0, 1, 1, 1)), Padding(self.epilog or "", (1, 1, 0, 1))
        Console(highlight=False, markup=False).print(usage, summary, *boxes, example, sep="")


@cache
def _command(name: str) -> Any:
    """A command or group, made once in a process."""
    found = _imported(name)
    around = typer.Typer(rich_markup_mode="markdown")
    if isinstance(found, typer.Typer):
        for info in found.registered_commands:
            _prepare(info)
        if found.registered_callback is not None and found.registered_callback.callback is not None:
            found.registered_callback.callback = spread(found.registered_callback.callback)
        around.add_typer(found, name=name, cls=Group)
    else:
        around.command(name)(found)
        _prepare(around.registered_commands[0])
    return get_group(around).commands[name]


def _imported(name: str) -> Any:
    """The function of a command, or the application of its subcommands."""
    room = next(_ROOMS[panel] for panel, names in _PANELS.items() if name in names)
    return getattr(importlib.import_module(f"cli.{room}.{_BESIDE.get(name, name)}"), name)


def _summary(found: Any) -> str:
    """Summary of a command, in one line."""
    text = found.info.help if isinstance(found, typer.Typer) else found.__doc__
    return str(text).partition("\n")[0]


def _prepare(info: CommandInfo) -> None:
    """Give a command its flags one by one, and put the example of its docstring at the end of its help."""
    assert info.callback is not None
    text, _, example = inspect.cleandoc(info.callback.__doc__ or "").partition("\n\nExample: ")
    info.help, info.epilog = text, f"Example: {' '.join(example.split())}"
    info.callback = spread(info.callback)


def _panel(name: str, rows: dict[str, str]) -> RenderableType:
    from rich.panel import Panel
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold cyan", no_wrap=True, min_width=max(map(len, _COMMANDS)))
    table.add_column(overflow="fold", ratio=1)
    for cells in rows.items():
        table.add_row(*cells)
    return Panel(table, title=name, title_align="left", border_style="dim")


app = typer.Typer(
    name="evigraph",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Markdown joins the lines of a docstring's paragraph.
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Answer clinical questions from given evidence, and see how every answer came to be.",
    epilog="Example: evigraph run tamu cases.xml --model embedded:smollm2-135m",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"evigraph {version('evigraph')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
    verbose: Annotated[bool, typer.Option("--verbose")] = False,
    debug: Annotated[bool, typer.Option("--debug")] = False,
) -> None:
    """Declare options before a command; `main` has already removed two of them from the arguments."""


def main() -> None:
    """Run a command. Exit codes: 0 all done, 1 some failed or not run, 2 wrong input, 130 interrupted."""
    from cli.terminal import show_log
    from serving.policy.privacy import switch_off_telemetry
    from storage.private import close_files
    from weights.loading import let_threads_sleep

    switch_off_telemetry()
    let_threads_sleep()
    arguments = sys.argv[1:]
    debug, verbose = "--debug" in arguments, "--verbose" in arguments
    try:
        # Weights are not case text, and many users may share a cache of them.
        if arguments[:1] != ["models"]:
            close_files()
        show_log(verbose=verbose)
        arguments = [one for one in arguments if one not in ("--debug", "--verbose")]
        complete(lambda: app(args=arguments, prog_name="evigraph"))
    except BrokenPipeError:
        # `evigraph show RUN | head` closes our output: no reader is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if debug:
            raise
        line, code = _explain(error)
        sys.stderr.write(f"evigraph: {line}\n")
        sys.exit(code)


_MAX_LINE = 3000
"""Characters of an error: a name in a file may be as long as the file."""


def _shortened(line: str) -> str:
    """Both ends of a line, as the file is at one end and the remedy at the other."""
    if len(line) <= _MAX_LINE:
        return line
    return f"{line[: 2 * _MAX_LINE // 3]} ... {line[-_MAX_LINE // 3 :]}"


def _explain(error: Exception) -> tuple[str, int]:
    """The line to print and the code to exit with."""
    from cases.texts import printable
    from evals.bench.benchmark import BenchError
    from evals.errors import CalibrationError, ExperimentError, OptimisationError
    from evals.scoring.gold import ScoringError
    from evals.spans.otlp import SpanExportError
    from nodes.core.recipe import RecipeError
    from prompts import PromptError
    from ranking.errors import RankerError
    from runs.record.manifest import RunError, RunStopped
    from serving.journal.journal import JournalError
    from serving.protocol.errors import CallError, ModelError
    from storage.errors import InputError
    from storage.url_names import with_urls
    from weights.registry import WeightsError

    # Whatever it quotes: file names and servers' words come from others.
    line = _shortened(printable(with_urls(" ".join(str(error).split()))))
    if isinstance(error, RunStopped):
        return line, 1
    of_input = (InputError, OSError, RecipeError, PromptError)
    of_models = (ModelError, CallError, JournalError, WeightsError, RankerError)
    of_work = (RunError, BenchError, ScoringError, SpanExportError)
    of_evals = (CalibrationError, ExperimentError, OptimisationError)
    if isinstance(error, (*of_input, *of_models, *of_work, *of_evals)):
        return line, 2
    return f"internal error: {type(error).__name__}: {line} (run again with --debug for the traceback)", 1


if __name__ == "__main__":
    main()
