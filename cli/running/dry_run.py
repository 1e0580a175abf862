"""Output of `evigraph run --dry-run`."""

from __future__ import annotations

from functools import partial
from typing import Any

from cli.session import until_signal
from cli.terminal import Result, plural, print_facts, print_rows, safe
from runs.estimate.dry_run import dry_run
from runs.estimate.estimate import Estimate
from runs.execute.assemble import Request
from runs.execute.batch import Options
from serving.requests.dry_run import CHARACTERS_A_TOKEN, Tally, options_sent

_EXACT = "exact: counted by the model's own tokenizer"
_ESTIMATED = f"an estimate: {CHARACTERS_A_TOKEN} characters a token, as the model's tokenizer is missing"
_ASSUMED = (
    "assumed: labels a quarter essential, answers and questions of four fifths of the word limit,"
    " two citations a sentence"
)
_HOURS = (
    "at most {hours:g} for each round of batches, mostly far less; a reflection waits for its vote, an answer"
    " for its evidence, and a correction for its first reply"
)
_THINKING = "assumed by effort; models vary by a factor of ten"


def rehearse(request: Request, options: Options) -> Result:
    """Rehearse to the end or to a signal; exits as a run would."""
    estimate, interrupted = until_signal(
        lambda stop, watcher: dry_run(request, options, stop=stop, watcher=watcher)
    )
    cut_short = interrupted and estimate.ended < estimate.cases
    code = 130 if cut_short else int(bool(estimate.failed))
    return Result(_as_object(estimate), partial(_print, estimate), code)


def _as_object(estimate: Estimate) -> dict[str, Any]:
    total = estimate.total
    budget, correction, costs = estimate.budget, estimate.correction, estimate.costs
    return {
        "dry_run": True,
        "system": estimate.system,
        "cases": estimate.cases,
        "estimated": estimate.ended,
        "failed": estimate.failed.total(),
        "errors": dict(sorted(estimate.failed.items())),
        "models": dict(estimate.models),
        "roles": {
            role: _counts(part) | ({"cost": costs[role]} if role in costs else {})
            for role, part in estimate.tallies.items()
        },
        **_counts(total),
        "output_tokens_are": "assumed",
        "cost": estimate.cost,
        "unpriced_models": estimate.unpriced,
        "budget": {
            "max_tokens": budget.max_tokens,
            "max_cost": budget.max_cost,
            "cases_within_tokens": estimate.cases_within_tokens,
            "cases_within_cost": estimate.cases_within_cost,
        },
        "answer_corrections": None if correction is None else {"counted": False, **correction._asdict()},
        **(
            {"online_cost": estimate.online_cost, "hours_a_round": estimate.hours} if estimate.batched else {}
        ),
        "whole_input": {
            "cases": estimate.input_cases,
            "calls": estimate.scaled(total.calls),
            "input_tokens": estimate.scaled(total.input_tokens),
            "output_tokens": estimate.scaled(total.output_tokens),
            **_thinking(estimate.scaled(total.thinking_tokens)),
            **({} if estimate.whole_cost is None else {"cost": estimate.whole_cost}),
        },
    }


def _counts(part: Tally) -> dict[str, Any]:
    return {
        "calls": part.calls,
        "requests": part.requests,
        "input_tokens": part.input_tokens,
        "output_tokens": part.output_tokens,
        "input_tokens_are": "estimated" if part.estimated else "exact",
        **_thinking(part.thinking_tokens),
        **({} if part.sent is None else {"sent": options_sent(part.sent)}),
    }


def _thinking(tokens: int) -> dict[str, int]:
    """Only what models that think have."""
    return {"thinking_tokens": tokens} if tokens else {}


def _print(estimate: Estimate) -> None:
    costs: dict[str, float | None] = {role: cost for role, cost in estimate.costs.items()}
    costs["total"] = estimate.cost
    rows = []
    for role, part in (*estimate.tallies.items(), ("total", estimate.total)):
        numbers = (part.calls, part.requests, part.input_tokens, part.output_tokens)
        cells = [role, *(f"{number:,}" for number in numbers)]
        if estimate.cost is not None:
            cost = costs.get(role)
            cells.append("-" if cost is None else f"{cost:.4g}")
        rows.append([safe(text, "bold" if role == "total" else "") for text in cells])
    heads = ("calls", "requests", "tokens read", "tokens written", *(["cost"] * (estimate.cost is not None)))
    print_rows(("role", *heads), rows, right=heads)
    print_facts(_notes(estimate))


def _notes(estimate: Estimate) -> list[tuple[str, str]]:
    total, correction = estimate.total, estimate.correction
    failed = ", ".join(f"{count} {name}" for name, count in sorted(estimate.failed.items()))
    cases = f"{estimate.ended} of {estimate.cases} estimated; no model was asked, no run folder was made"
    notes = [
        ("cases", cases + (f"; would fail: {failed}" if failed else "")),
        ("models", ", ".join(dict.fromkeys(estimate.models.values()))),
        ("read", _read(total) + "; cached tokens of servers are unknown"),
        ("written", _ASSUMED),
    ]
    if total.thinking_tokens:
        notes.append(("thinking", f"{plural(total.thinking_tokens, 'token')} on top, {_THINKING}"))
    for role, part in estimate.tallies.items():
        if part.sent is not None:
            notes.append((f"{role} sends", options_sent(part.sent)))
    notes += [("not sent", sentence) for sentence in estimate.not_sent]
    if correction is not None:
        notes.append(
            (
                "not counted",
                f"retries and corrections; each correction of an answer adds at most about"
                f" {plural(correction.input_tokens, 'token')} read and {correction.output_tokens:,} written,"
                f" and there are at most {correction.most:,}",
            )
        )
    if estimate.hours:
        notes.append(("hours", _HOURS.format(hours=estimate.hours)))
    if estimate.cost is not None and estimate.batched:
        notes.append(("online", f"{estimate.online_cost:.4g} without batches"))
    if estimate.cost is not None:
        unpriced = f"; no price for {', '.join(estimate.unpriced)}" if estimate.unpriced else ""
        notes.append(("cost", f"{estimate.cost:.4g}, every prompt at its full price{unpriced}"))
    notes += _budget(estimate)
    if estimate.input_cases > estimate.cases:
        counts = (total.input_tokens, total.output_tokens, total.thinking_tokens)
        cost = "" if estimate.whole_cost is None else f", cost {estimate.whole_cost:.4g}"
        notes.append(
            (
                "whole input",
                f"{plural(estimate.input_cases, 'case')} at this rate:"
                f" {plural(estimate.scaled(total.calls), 'call')},"
                f" {_tokens(*map(estimate.scaled, counts))}{cost}",
            )
        )
    return notes


def _tokens(read: int, written: int, thought: int) -> str:
    thinking = f", {thought:,} of thinking on top" if thought else ""
    return f"{plural(read, 'token')} read, {written:,} written{thinking}"


def _read(total: Tally) -> str:
    if not total.estimated:
        return _EXACT
    if total.estimated == total.requests:
        return _ESTIMATED
    return f"exact but for {total.estimated:,} of {total.requests:,} requests, which are {_ESTIMATED}"


def _budget(estimate: Estimate) -> list[tuple[str, str]]:
    caps = (
        (plural(estimate.budget.max_tokens or 0, "token"), estimate.cases_within_tokens),
        (f"a cost of {estimate.budget.max_cost or 0:g}", estimate.cases_within_cost),
    )
    return [("budget", f"{name}: {_enough(estimate, cases)}") for name, cases in caps if cases is not None]


def _enough(estimate: Estimate, within: int) -> str:
    """Whether a budget is enough for the cases of the run, and for the whole input."""
    whole = f"after about {within:,} of {plural(estimate.input_cases, 'case')}"
    if within >= estimate.input_cases:
        return f"enough for all {plural(estimate.input_cases, 'case')} of the input"
    if within >= estimate.cases:
        return f"enough for {plural(estimate.cases, 'case')}; the whole input would stop {whole}"
    return f"not enough: the run would stop {whole}"
