"""From the flags that `run`, `resume` and `retry` share to the options of a batch."""

from __future__ import annotations

from pathlib import Path

import typer

from runs.batch import Options
from runs.manifest import BudgetCaps
from serving.limits import Limits
from serving.prices import load_prices


def batch_options(
    command: str,
    *,
    concurrency: int | None,
    limits: Limits,
    probe: bool,
    max_tokens_total: int | None,
    max_cost: float | None,
    prices: Path | None,
) -> Options:
    """Check the flags against each other.

    Raises:
        typer.BadParameter: A new run has a limit to its cost and no prices.
        ModelError: The price file.
    """
    if command == "run" and max_cost is not None and prices is None:
        raise typer.BadParameter("--max-cost needs --prices FILE")
    budget = BudgetCaps(
        max_tokens=max_tokens_total,
        max_cost=max_cost,
        prices=load_prices(prices) if prices is not None else {},
    )
    return Options(command, concurrency, limits, budget, probe)
