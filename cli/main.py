"""`evigraph`: the commands, and the one place where an error becomes a line."""

from __future__ import annotations

import os
import sys

import typer

from cli.analyse import analyse
from cli.bench import bench
from cli.compare import compare
from cli.corpus import corpus
from cli.demos import demos
from cli.experiment import experiment
from cli.export import export
from cli.graph import graph
from cli.index import index
from cli.models import models
from cli.pairs import pairs
from cli.rank import rank
from cli.rankings import rankings
from cli.rerun import rerun
from cli.resume import resume
from cli.retrieval import retrieval
from cli.retry import retry
from cli.review import review
from cli.run import run
from cli.score import score
from cli.serve import serve
from cli.show import show
from cli.study import study
from cli.submit import submit
from cli.train import train
from cli.validate import validate
from cli.verify import verify
from cli.view import view

app = typer.Typer(
    name="evigraph",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Markdown joins the lines of a docstring's paragraph.
    rich_markup_mode="markdown",
    help="Answer clinical questions from given evidence, and see how every answer came to be.",
    epilog="Example: evigraph run tamu cases.xml --model embedded:smollm2-135m",
)
app.command()(run)
app.command()(resume)
app.command()(retry)
app.command()(rerun)
app.command()(show)
app.command()(review)
app.command()(score)
app.command()(analyse)
app.command()(experiment)
app.command()(study)
app.command()(export)
app.command()(submit)
app.command()(validate)
app.command()(compare)
app.command()(view)
app.command()(graph)
app.command()(rank)
app.command()(retrieval)
app.command()(rankings)
app.command()(pairs)
app.command()(verify)
app.command()(serve)
app.command()(bench)
app.command()(train)
app.add_typer(models, name="models")
app.add_typer(demos, name="demos")
app.add_typer(corpus, name="corpus")
app.add_typer(index, name="index")


@app.callback()
def _options(
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks. May stand anywhere."),
) -> None:
    """Declare `--debug` for the help text; `main` has taken it from the arguments already."""


def main() -> None:
    """Run a command. Exit codes: 0 all done, 1 some failed or not run, 2 wrong input, 130 interrupted."""
    from serving.privacy import switch_off_telemetry

    switch_off_telemetry()
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    try:
        app(args=[argument for argument in arguments if argument != "--debug"], prog_name="evigraph")
    except BrokenPipeError:
        # `evigraph show RUN | head` closes our output; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if debug:
            raise
        from cli.errors import explain

        line, code = explain(error)
        sys.stderr.write(f"evigraph: {line}\n")
        sys.exit(code)
