"""`evigraph optimise`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.flags import BatchFlags
from cli.options import EffortOption, ModelOption, NewKeyOption, input_path, local_path
from cli.set_values import effort_values
from cli.terminal import Result, print_line, print_table

if TYPE_CHECKING:
    from evals.optimisation.run import Outcome
    from evals.optimisation.split import CaseFiles


def optimise(
    recipe: Annotated[
        str, typer.Argument(help="Recipe file, or the name of a packaged one.", metavar="RECIPE")
    ],
    cases: Annotated[
        list[Path],
        typer.Option(
            help="Labelled case files or folders of them. Repeatable.", metavar="FILE|URL", parser=input_path
        ),
    ],
    budget: Annotated[
        int,
        typer.Option(
            min=1,
            help="Most tokens that proposals, search and judgement may read and write together. The search"
            " stops before a candidate that would exceed it.",
            metavar="TOKENS",
        ),
    ],
    key: NewKeyOption = None,
    model: ModelOption = None,
    effort: EffortOption = None,
    test: Annotated[
        str,
        typer.Option(
            help="Share of the cases that the search never sees, or a file of other labelled cases; the"
            " result is judged on them.",
            metavar="SHARE|FILE|URL",
        ),
    ] = "0.5",
    test_key: Annotated[
        list[Path] | None,
        typer.Option(help="Key of a --test file. Repeatable.", metavar="FILE|URL", parser=input_path),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Candidates to try; the given recipe is not counted.", metavar="N")
    ] = 20,
    instructions: Annotated[
        int,
        typer.Option(
            min=0,
            help="Instructions that the `answer` model proposes for each prompt, and draws of"
            " demonstrations. 0 searches among settings alone.",
            metavar="N",
        ),
    ] = 4,
    description: Annotated[
        str | None,
        typer.Option(help="The task in a sentence or two, for the model that proposes.", metavar="TEXT"),
    ] = None,
    demos: Annotated[
        Path | None,
        typer.Option(
            help="Pool that demonstrations are chosen from. (default: the packaged samples)",
            metavar="FOLDER",
            parser=local_path,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split and of all draws.")] = 42,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder. (default: out/optimise-RECIPE)")
    ] = None,
    *,
    flags: BatchFlags,
) -> Result:
    """Search for better instructions, demonstrations and settings of evidence, and judge them on other cases.

    A model proposes instructions; optuna chooses among them, demonstrations, form of reply and reflection.
    All candidates share one journal. Repeat the command to continue after an interruption. The gain over the
    given recipe is measured on cases that the search never saw. Exit codes: 0 finished, also where no gain is
    shown, 1 the budget left the judgement unfinished, 2 wrong input, 130 interrupted.

    Example: evigraph optimise tamu --cases dev.xml --key dev_key.json --model openai:gpt-x --budget 2000000
    """
    from cli.session import until_signal
    from evals.optimisation.instructions import DESCRIPTION
    from evals.optimisation.report import as_object, write_report
    from evals.optimisation.run import Wanted
    from evals.optimisation.run import optimise as search
    from evals.optimisation.space import Given
    from evals.optimisation.split import CaseFiles
    from graph.recipe import load_recipe, located, override
    from runs.execute.batch import Options
    from serving.protocol.model_name import assign_roles

    loaded = load_recipe(recipe)
    loaded = override(loaded, effort_values(effort or (), loaded.effort), recipe)
    wanted = Wanted(
        given=Given(located(recipe), loaded),
        files=CaseFiles(tuple(cases), tuple(key or ())),
        models=assign_roles(model or [], loaded.models),
        budget=budget,
        trials=trials,
        variants=instructions,
        test=_test(test, test_key),
        demos=demos,
        seed=seed,
        description=description or DESCRIPTION,
        options=Options("run", flags.concurrency, flags.limits, probe=flags.probe),
    )
    folder = out or Path("out") / f"optimise-{Path(recipe).stem}"
    outcome, _ = until_signal(lambda stop, watcher: search(wanted, folder, stop=stop, watcher=watcher))
    write_report(outcome, folder)
    code = 130 if outcome.ended_by == "stop" else int(not outcome.is_complete)
    return Result(as_object(outcome, folder), partial(_print, outcome, folder), code)


def _test(text: str, keys: list[Path] | None) -> float | CaseFiles:
    """A share or case files.

    Raises:
        typer.BadParameter: It is neither, or a key is given for a share.
    """
    from evals.optimisation.split import CaseFiles

    try:
        share = float(text)
    except ValueError:
        return CaseFiles((input_path(text),), tuple(keys or ()))
    if keys:
        raise typer.BadParameter("--test-key needs --test FILE")
    if not 0 < share < 1:
        raise typer.BadParameter(f"--test {text}: give a share between 0 and 1, or a file")
    return share


def _print(outcome: Outcome, folder: Path) -> None:
    """The table of candidates, the verdict, the cost, the path of the result."""
    from evals.optimisation.report import PAGE, RECIPE, heading, trial_table, verdict

    print_table(trial_table(outcome))
    print_line()
    lines = [heading(outcome), *outcome.notes, verdict(outcome)]
    recipe, system = folder / RECIPE, outcome.wanted.given.loaded.system
    if outcome.best is not None:
        lines.append(f"recipe  {recipe}")
    lines.append(f"report  {folder / PAGE}")
    if outcome.best is not None:
        lines.append(f"next    evigraph run {system} CASES... --recipe {recipe} --model STRING")
    for line in lines:
        print_line(line)
