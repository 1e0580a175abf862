"""Estimated use of a run, from a dry run of its cases. Arithmetic only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runs.record.manifest import BudgetCaps
from serving.protocol.model_name import Role
from serving.requests.dry_run import Tally, added


class Correction(NamedTuple):
    """The most that one correction of an answer adds, in tokens, and how many there can be."""

    input_tokens: int
    output_tokens: int
    most: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """Counts of a dry run.

    Attributes:
        cases: Those that the run would take, by its limit.
        input_cases: All cases of the input.
        ended: How many came to an end in the dry run.
        models: Model string of each role, and its name in a price file.
        correction: None where the recipe asks for no answer, or corrects none.
        price_share: Price of a call in a batch as a share of that online.
        hours: After which a provider gives a batch up, and so the most that a round of batches takes.
        not_sent: Sentences on values of the recipe that the models do not take.
    """

    system: str
    cases: int
    input_cases: int
    ended: int
    failed: Counter[str]
    models: Mapping[Role, str]
    priced_as: Mapping[Role, str]
    tallies: Mapping[Role, Tally]
    budget: BudgetCaps = field(default_factory=BudgetCaps)
    correction: Correction | None = None
    batched: frozenset[Role] = frozenset()
    price_share: float = 1.0
    hours: float = 0.0
    not_sent: tuple[str, ...] = ()

    @property
    def total(self) -> Tally:
        return added(self.tallies.values())

    @property
    def tokens(self) -> int:
        return self.total.input_tokens + self.total.output_tokens + self.total.thinking_tokens

    @property
    def cost(self) -> float | None:
        """With every prompt at its full price, calls in batches at their share; None without prices."""
        if not self.budget.prices:
            return None
        return sum(self.costs.values())

    @property
    def costs(self) -> dict[Role, float]:
        """By role; empty without prices."""
        return {
            role: cost * (self.price_share if role in self.batched else 1.0)
            for role, cost in self._online_costs().items()
        }

    @property
    def online_cost(self) -> float | None:
        return sum(self._online_costs().values()) if self.budget.prices else None

    def _online_costs(self) -> dict[Role, float]:
        priced = {role: self.budget.prices.get(self.priced_as[role]) for role in self.tallies}
        return {
            role: price.cost(
                self.tallies[role].input_tokens,
                self.tallies[role].output_tokens + self.tallies[role].thinking_tokens,
            )
            for role, price in priced.items()
            if price is not None
        }

    @property
    def unpriced(self) -> list[str]:
        """Models that the price file lacks."""
        if not self.budget.prices:
            return []
        names = dict.fromkeys(self.priced_as[role] for role in self.tallies)
        return [name for name in names if name not in self.budget.prices]

    @property
    def cases_within_tokens(self) -> int | None:
        """How many cases of the input the budget of tokens is enough for, about; None without one."""
        return self._within(self.budget.max_tokens, self.tokens)

    @property
    def cases_within_cost(self) -> int | None:
        return self._within(self.budget.max_cost, self.cost)

    @property
    def whole_cost(self) -> float | None:
        """Of all cases of the input, at the rate of those that were counted."""
        return self.cost * self.input_cases / self.ended if self.cost is not None and self.ended else None

    def scaled(self, number: int) -> int:
        """A number of those cases, for all cases of the input."""
        return round(number * self.input_cases / self.ended) if self.ended else 0

    def _within(self, cap: float | None, used: float | None) -> int | None:
        if cap is None or used is None:
            return None
        enough = used * self.input_cases <= cap * self.ended
        return self.input_cases if enough else int(cap * self.ended / used)
