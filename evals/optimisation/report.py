"""Results of an optimisation: gain on unseen cases, candidates, resulting recipe."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from cases.texts import plural
from evals.compare.differences import MetricDifference
from evals.optimisation.run import Outcome
from evals.pages.page import FEW_CASES, render_page
from evals.pages.plots import interval_plot
from evals.pages.tables import NO_VALUE, SHARES, Cell, Column, Table, interval_object, p_text
from storage.files import json_bytes, write_atomically

NO_GAIN = "no gain shown"
SIGNIFICANT = 0.05
RECIPE, PROMPTS, PAGE = "recipe.yaml", "prompts", "report.html"

_ENDED_BY = {
    "trials": "all candidates that were asked for have been tried",
    "space": "every candidate that there is has been tried",
    "budget": "the budget ended the search",
    "stop": "interrupted; the same command continues it",
}


def write_report(outcome: Outcome, out: Path) -> None:
    """Write recipe, prompts, page and numbers.

    Raises:
        InputError: A file cannot be written.
    """
    if outcome.best is not None:
        _write_recipe(outcome, out / RECIPE)
    gain, plot = outcome.gain, ""
    if gain is not None:
        rows = [("as given", gain.first), ("as found", gain.second)]
        plot = interval_plot(rows, "strict micro F1", "held-out", scale=1 / SHARES.over)
    page = render_page(
        "optimisation.html",
        verdict=verdict(outcome),
        heading=heading(outcome),
        instructions=instructions(outcome),
        notes=_notes(outcome),
        trial_table=trial_table(outcome),
        gain_plot=plot,
    )
    write_atomically(out / PAGE, [page.encode()])
    write_atomically(out / "report.json", [json_bytes(as_object(outcome, out), indent=2)])


def heading(outcome: Outcome) -> str:
    """Progress and cost of the search."""
    tried = max(0, sum(one.state != "refused" for one in outcome.trials) - 1)
    return (
        f"{plural(tried, 'candidate')} and the given recipe on {len(outcome.split.search.cases)}"
        f" search cases; {_ENDED_BY[outcome.ended_by]}; {outcome.spent:,} of"
        f" {plural(outcome.wanted.budget, 'token')} spent."
    )


def verdict(outcome: Outcome) -> str:
    """Result of the search, in a sentence."""
    gain = outcome.gain
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
    """Whether interval and test agree on a difference: with few cases, either one by itself is too lax."""
    return gain.is_clear and gain.p_value < SIGNIFICANT


def instructions(outcome: Outcome) -> dict[str, dict[str, str]]:
    """The present instruction of each prompt and its variants, by name."""
    space = outcome.space
    return {
        name: {"as given": space.present[name].text, **variants} for name, variants in space.variants.items()
    }


def trial_table(outcome: Outcome) -> Table:
    """A row for each candidate, in the order of the search."""
    heads = [
        Column("candidate", "text"),
        Column("search F1", short="F1"),
        Column("cases"),
        Column("failed"),
        Column("own tokens", short="tokens"),
        Column("", "name", wraps=False),
        Column("differences", "text"),
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


def as_object(outcome: Outcome, out: Path) -> dict[str, Any]:
    """For programs: numbers, ids and choices; shares are points of 100. No text of a case."""
    gain, best = outcome.gain, outcome.best
    held_out = None
    if gain is not None:
        held_out = {
            "given": interval_object(gain.first),
            "best": interval_object(gain.second),
            "difference": interval_object(gain.difference),
            "p_value": gain.p_value,
        }
    return {
        "verdict": verdict(outcome),
        "gain_shown": gain is not None and gain.difference.low > 0 and _is_clear(gain),
        "held_out": held_out,
        "cases": {"search": len(outcome.split.search.cases), "held_out": len(outcome.split.test.cases)},
        "best": None if best is None else best.number,
        "trials": [
            {**asdict(one), "scores": {str(cases): value for cases, value in one.scores}}
            for one in outcome.trials
        ],
        "instructions": {
            name: {"given": texts["as given"], "variants": [*texts.values()][1:]}
            for name, texts in instructions(outcome).items()
        },
        "draws": {name: list(ids) for name, ids in outcome.space.draws.items()},
        "ended_by": outcome.ended_by,
        "tokens": {"spent": outcome.spent, "budget": outcome.wanted.budget},
        "notes": list(outcome.notes),
        "recipe": None if best is None else str(out / RECIPE),
    }


def _notes(outcome: Outcome) -> list[str]:
    found = [*outcome.notes]
    cases = len(outcome.split.test.cases)
    if cases < FEW_CASES:
        found.append(f"{cases} held-out cases are few: only a large gain can be shown on them.")
    if outcome.gain is not None:
        found.append(
            "A longer search on the same held-out cases is influenced by their scores; judge its result on"
            " others: --test FILE."
        )
    return found


def _write_recipe(outcome: Outcome, path: Path) -> None:
    """Only what differs from the defaults, with where it comes from."""
    assert outcome.best is not None
    recipe = outcome.space.result(outcome.best.choices, path.parent / PROMPTS)
    values = {"system": recipe.system, **recipe.model_dump(mode="json", exclude_defaults=True)}
    models = ", ".join(dict.fromkeys(name.identity for name in outcome.wanted.models.values()))
    head = [
        f"{outcome.wanted.given.origin}, optimised: {outcome.space.in_words(outcome.best.choices)}.",
        f"Found with {models} on {plural(len(outcome.split.search.cases), 'case')}; another model may"
        " need another.",
        verdict(outcome),
    ]
    comment = "".join(f"# {' '.join(line.split())}\n" for line in head)
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)
    write_atomically(path, [(comment + text).encode()])
