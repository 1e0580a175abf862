"""What an optimisation came to: the gain on unseen cases, the candidates, the recipe that results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from cases.texts import plural
from evals.compare.differences import MetricDifference, Settings, compare_scores
from evals.optimisation.run import HEADLINE, Outcome
from evals.pages.page import FEW_CASES, render_page
from evals.pages.plots import interval_plot
from evals.pages.tables import NO_VALUE, SHARES, Cell, Column, Table, interval_object, p_text
from storage.files import json_bytes, write_atomically

NO_GAIN = "no gain shown"
SIGNIFICANT = 0.05
RECIPE, PROMPTS = "recipe.yaml", "prompts"

_ENDED_BY = {
    "trials": "all candidates that were asked for have been tried",
    "space": "every candidate that there is has been tried",
    "budget": "the budget ended the search",
    "stop": "interrupted; the same command goes on",
}


@dataclass(frozen=True, slots=True)
class Report:
    """An optimisation's result and where it stands.

    Attributes:
        outcome: What it was made of.
        gain: Strict micro F1 of the given recipe and the best one on the held-out cases, 0 to 100.
        verdict: What that comes to, in a sentence.
        recipe: The recipe that results; None before any candidate has ended.
    """

    outcome: Outcome
    gain: MetricDifference | None
    verdict: str
    recipe: Path | None
    page: Path

    @property
    def heading(self) -> str:
        """How far the search went, and what it cost."""
        outcome = self.outcome
        tried = max(0, sum(one.state != "refused" for one in outcome.trials) - 1)
        return (
            f"{plural(tried, 'candidate')} and the given recipe on {len(outcome.split.search.cases)}"
            f" search cases; {_ENDED_BY[outcome.ended_by]}; {outcome.spent:,} of"
            f" {plural(outcome.wanted.budget, 'token')} spent."
        )

    @property
    def instructions(self) -> dict[str, dict[str, str]]:
        """The present instruction of each prompt and its variants, by name."""
        space = self.outcome.space
        return {
            name: {"as given": space.present[name].text, **variants}
            for name, variants in space.variants.items()
        }


def report(outcome: Outcome, out: Path) -> Report:
    """Judge the best candidate, and write recipe, prompts, page and numbers.

    Raises:
        InputError: A file cannot be written.
    """
    gain = None
    if outcome.judged is not None:
        (task,) = compare_scores([outcome.judged[0]], [outcome.judged[1]], Settings())
        gain = next(one for one in task.metrics if one.name == HEADLINE)
    recipe = out / RECIPE if outcome.best is not None else None
    made = Report(outcome, gain, _verdict(outcome, gain), recipe, out / "report.html")
    if recipe is not None:
        _write_recipe(made, recipe)
    plot = ""
    if gain is not None:
        rows = [("as given", gain.first), ("as found", gain.second)]
        plot = interval_plot(rows, "strict micro F1", "held-out", scale=1 / SHARES.over)
    page = render_page(
        "optimisation.html", report=made, notes=_notes(made), trial_table=trial_table(made), gain_plot=plot
    )
    write_atomically(made.page, [page.encode()])
    write_atomically(out / "report.json", [json_bytes(as_object(made), indent=2)])
    return made


def trial_table(report: Report) -> Table:
    """A row for each candidate, in the order of the search."""
    outcome = report.outcome
    heads = [
        Column("candidate", "text"),
        Column("search F1", short="F1"),
        Column("cases"),
        Column("failed"),
        Column("tokens of its own", short="tokens"),
        Column("", "name", wraps=False),
        Column("in what it differs", "text"),
    ]
    rows = [
        [
            Cell(str(one.number or "given"), tone="strong" if one == outcome.best else ""),
            NO_VALUE if one.score is None else SHARES.number(one.score),
            str(one.cases),
            str(one.failed),
            f"{one.tokens:,}",
            "best" if one == outcome.best else one.state,
            one.reason or outcome.space.in_words(one.choices),
        ]
        for one in outcome.trials
    ]
    return Table(heads, rows, caption="Strict micro F1 on the search cases, by which the best is chosen.")


def as_object(report: Report) -> dict[str, Any]:
    """For programs: numbers, ids and choices; shares are points of 100. No text of a case."""
    outcome, gain = report.outcome, report.gain
    return {
        "verdict": report.verdict,
        "gain_shown": gain is not None and gain.difference.low > 0 and _is_clear(gain),
        "held_out": None
        if gain is None
        else {
            "given": interval_object(gain.first),
            "best": interval_object(gain.second),
            "difference": interval_object(gain.difference),
            "p_value": gain.p_value,
        },
        "cases": {"search": len(outcome.split.search.cases), "held_out": len(outcome.split.test.cases)},
        "best": None if outcome.best is None else outcome.best.number,
        "trials": [
            {**asdict(one), "scores": {str(cases): value for cases, value in one.scores.items()}}
            for one in outcome.trials
        ],
        "instructions": {
            name: {"given": given, "variants": variants}
            for name, (given, *variants) in (
                (name, texts.values()) for name, texts in report.instructions.items()
            )
        },
        "draws": {name: list(ids) for name, ids in outcome.space.draws.items()},
        "ended_by": outcome.ended_by,
        "tokens": {"spent": outcome.spent, "budget": outcome.wanted.budget},
        "notes": list(outcome.notes),
        "recipe": None if report.recipe is None else str(report.recipe),
    }


def _verdict(outcome: Outcome, gain: MetricDifference | None) -> str:
    if outcome.best is None:
        return "No candidate has ended."
    if outcome.ended_by == "stop":
        return "The search is not finished."
    if outcome.unchanged:
        return f"{NO_GAIN}: no candidate did better than the given recipe on the search cases."
    if gain is None:
        return "The held-out cases are not finished, so nothing is known of a gain."
    difference = gain.difference
    given, found = SHARES.number(gain.first.value), SHARES.number(gain.second.value)
    way = f"{SHARES.number(difference.value, signed=True)} {SHARES.bracket(difference, signed=True)}"
    p_value = p_text(gain.p_value, equals=True)
    numbers = f"held-out F1 {given} as given, {found} as found, difference {way}, p {p_value}"
    if not _is_clear(gain):
        return f"{NO_GAIN}: {numbers}."
    return f"{'gain' if difference.low > 0 else f'{NO_GAIN} but a loss'}: {numbers}."


def _is_clear(gain: MetricDifference) -> bool:
    """Whether interval and test agree that there is a difference: of few cases either alone is too easy."""
    return gain.is_clear and gain.p_value < SIGNIFICANT


def _notes(report: Report) -> list[str]:
    found = [*report.outcome.notes]
    cases = len(report.outcome.split.test.cases)
    if cases < FEW_CASES:
        found.append(f"{cases} held-out cases are few: only a large gain can be shown on them.")
    if report.gain is not None:
        found.append(
            "A longer search on the same held-out cases chooses by what they have shown; judge its result on"
            " others: --test FILE."
        )
    return found


def _write_recipe(report: Report, path: Path) -> None:
    """Only what differs from the defaults, with where it comes from."""
    outcome = report.outcome
    assert outcome.best is not None
    recipe = outcome.space.result(outcome.best.choices, path.parent / PROMPTS)
    values = {"system": recipe.system, **recipe.model_dump(mode="json", exclude_defaults=True)}
    models = ", ".join(dict.fromkeys(name.identity for name in outcome.wanted.models.values()))
    head = [
        f"{outcome.wanted.given.origin}, optimised: {outcome.space.in_words(outcome.best.choices)}.",
        f"Found with {models} on {plural(len(outcome.split.search.cases), 'case')}; another model may"
        " need another.",
        report.verdict,
    ]
    comment = "".join(f"# {' '.join(line.split())}\n" for line in head)
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)
    write_atomically(path, [(comment + text).encode()])
