"""`evigraph calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cases.texts import quoted
from cli.completion import recipe_names
from cli.options import KeyOption, input_path, run_folder
from cli.terminal import Result, plural, print_line, print_message, print_table

_WORDS = {"as it is": "today's", "every sentence": "taking every sentence"}

if TYPE_CHECKING:
    from cli.progress import Progress
    from evals.calibration.calibrate import BoundReport, Calibration
    from evals.calibration.labelled_cases import CalibrationData


def calibrate(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="A finished run, or labelled case files and folders of them.",
            metavar="RUN|CASES...",
            parser=_run_or_cases,
        ),
    ],
    key: KeyOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Recipe file to write.", metavar="FILE")
    ] = None,
    ranker: Annotated[
        str | None,
        typer.Option(
            help="Ranker that scores the cases, as of `evigraph run`. (default: the run's, if it has one; of"
            " CASES the recipe's)",
            metavar="NAME|FOLDER",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            "-r",
            help="Of CASES: recipe that all other values are taken from. (default: tamu)",
            metavar="NAME|FILE",
            autocompletion=recipe_names,
        ),
    ] = None,
    test: Annotated[
        float | None,
        typer.Option(
            help="Choose the rule on some cases and report on this share of them. (default: leave one case"
            " out in turn; 0.5 with --risk)",
            metavar="SHARE",
        ),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(
            help="Answer as many cases without a person as keep their mean loss at most here; the others wait"
            " for review.",
            metavar="R",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="Probability that the bound on the risk holds. (default: 0.9)", metavar="P"),
    ] = None,
    loss: Annotated[
        Literal["wrong_labels", "any_wrong", "missed", "f1"] | None,
        typer.Option(
            help="Loss of a case: the share of its sentences with a wrong label, whether there is one, the"
            " share of its essential sentences that are missed, or 1 - F1. (default: wrong_labels)"
        ),
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option(help="With --risk: write an SVG plot of coverage and risk.", metavar="FILE"),
    ] = None,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Write the files even if the rule does not beat today's, or than taking every sentence.",
        ),
    ] = False,
) -> Result:
    """Choose how votes and a ranker's scores become labels, on labelled cases. Calls no model.

    Weight of the ranker, vote threshold, cut-off and share of sentences are chosen together, and scored on
    cases that the choice has not seen: one case is left out in turn, or --test sets some aside. Brackets are
    95 % intervals by bootstrap over cases. With --out it writes a recipe that names data, models and prompts;
    a run that uses it with others is warned. A rule that does not beat today's, or than taking every
    sentence, is not written without --force.

    Example: evigraph calibrate out/2026-11-21T10-15-tamu-ab12 --key dev_key.json --out calibrated.yaml
    """
    from cli.progress import progress
    from evals.calibration.calibrate import RiskWish
    from evals.calibration.calibrate import calibrate as calibrate_data
    from evals.calibration.recipe import write_recipe
    from evals.calibration.render import as_object, curve_svg

    _refuse_contradictions(test, risk, confidence, loss, curve)
    wish = RiskWish(risk, confidence or 0.9, loss or "wrong_labels") if risk is not None else None
    with progress() as shown:
        found = _data(data, key or [], ranker, recipe, shown)
        for note in found.notes:
            if wish is not None:
                from evals.errors import CalibrationError

                raise CalibrationError(f"{found.origin}: no bound can be shown: {note}")
            print_message(f"warning: {note}", "yellow")
        made = calibrate_data(
            found, test, wish, start=lambda task, total: shown.start(task, total), advance=shown.advance
        )
    refused = bool(made.no_better_than) and not force and (out is not None or curve is not None)
    if refused:
        out = curve = None
    if out is not None:
        write_recipe(out, made)
    if curve is not None and made.bound is not None:
        from storage.files import write_atomically

        write_atomically(curve, [curve_svg(made.bound).encode()])

    def print_calibration() -> None:
        _print(made, curve)
        if refused:
            print_line("nothing saved; to save it nevertheless: --force", "yellow")
        elif out is None:
            print_line("nothing saved: --out FILE writes the recipe")
        else:
            print_line(f"recipe  {out}")
            print_line(f"next: evigraph run {made.data.recipe.system} CASES --recipe {quoted(out)}")

    return Result(as_object(made, None if out is None else str(out)), print_calibration, int(refused))


def _refuse_contradictions(
    test: float | None, risk: float | None, confidence: float | None, loss: str | None, curve: Path | None
) -> None:
    shares = {"--test": test, "--risk": risk, "--confidence": confidence}
    for name, value in shares.items():
        if value is not None and not 0 < value < 1:
            raise typer.BadParameter(f"{value:g}: give a number between 0 and 1", param_hint=name)
    for name, given in {"--confidence": confidence, "--loss": loss, "--curve": curve}.items():
        if given is not None and risk is None:
            raise typer.BadParameter(f"it belongs to a bound: {name} needs --risk", param_hint=name)


def _run_or_cases(name: str) -> Path:
    return input_path(name) if "://" in name else run_folder(name)


def _data(
    paths: list[Path], keys: list[Path], ranker: str | None, recipe: str | None, shown: Progress
) -> CalibrationData:
    """Calibration data of a run or of case files."""
    import asyncio

    from evals.calibration.labelled_cases import from_cases, from_run
    from graph.recipe import FLAGSHIP, load_recipe
    from nodes.evidence.settings import EvidenceSettings
    from ranking.rankers.load import located
    from runs.record.folder import MANIFEST

    runs = [path for path in paths if (path / MANIFEST).is_file()]
    named = None if ranker is None else located(ranker)
    if runs:
        if len(paths) > 1:
            raise typer.BadParameter(f"{runs[0]} is a run: give it alone, or give case files")
        if recipe is not None:
            raise typer.BadParameter("a run has a recipe already; leave --recipe out", param_hint="--recipe")
        if named is not None:
            shown.start("cases scored")
        return asyncio.run(from_run(runs[0], keys, named, shown.notify, shown.advance))
    base = recipe or FLAGSHIP
    voting = load_recipe(base).find_section(EvidenceSettings)
    if voting is None:
        raise typer.BadParameter(f"recipe {base} has no votes on evidence", param_hint="--recipe")
    shown.start("cases scored")
    return asyncio.run(from_cases(paths, keys, named or voting.ranker, base, shown.advance))


def _print(made: Calibration, curve: Path | None) -> None:
    from evals.calibration.render import SHARE, table_of
    from evals.pages.tables import p_text

    data = made.data
    left = "".join(f"; left out: {count:,} {reason}" for reason, count in data.left_out.items())
    sentences = sum(case.essential.size for case in data.cases)
    labelled = f"{plural(len(data.cases), 'labelled case')}, {plural(sentences, 'sentence')}"
    print_line(f"{data.origin}: {labelled}{left}")
    print_line(f"rule  {made.rule}")
    print_table(table_of(made), title=f"on {plural(made.tested_on, 'case')} not chosen on: {made.split}")
    for gain in made.gains:
        difference = f"{SHARE.number(gain.f1.value, signed=True)} {SHARE.bracket(gain.f1, signed=True)}"
        line = f"{gain.rule} against {gain.against}: F1 {difference}, p {p_text(gain.p_value, equals=True)}"
        print_line(line)
    for against in made.no_better_than:
        print_line(f"The rule is not better than {_WORDS[against]}.", "yellow")
    print_line(
        f"on the {plural(made.chosen_on, 'case')} of the choice itself: F1"
        f" {SHARE.number(made.in_sample)}, optimism {SHARE.number(made.optimism, signed=True)}"
    )
    if len(made.picks) > 1:
        named = "; ".join(f"{rule} ({count:,})" for rule, count in list(made.picks.items())[:3])
        print_line(f"chosen without the case in hand: {named}")
    if data.cost:
        calls, tokens = data.cost["calls"], data.cost["tokens"]
        print_line(f"the run took {calls:.1f} calls and {tokens:,.0f} tokens a case; a ranker takes none")
    if made.bound is not None:
        _print_bound(made.bound)
    if curve is not None:
        print_line(f"curve  {curve}")


def _print_bound(bound: BoundReport) -> None:
    from evals.calibration.risk import LOSS_WORDS

    wish, proven = bound.wish, bound.proven
    print_line(
        f"bound  {LOSS_WORDS[wish.loss]} of answered cases at most {wish.risk:g}, with probability"
        f" {wish.confidence:g}: {proven.answered} of {bound.cases} tested cases are answered without a"
        f" person (confidence from {proven.threshold:g}, mean loss {proven.loss:.3f}, p ="
        f" {proven.p_value:.3f}); the others wait for review"
    )
