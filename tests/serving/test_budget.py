from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.protocol.budget import Budget, BudgetHeld, BudgetSpent, Price, Spend, load_prices
from serving.protocol.errors import ModelError


async def call(budget: Budget, most: Spend, actual: Spend, wait: asyncio.Event | None = None) -> None:
    async with budget.reserve(most) as reservation:
        await (asyncio.sleep(0) if wait is None else wait.wait())
        reservation.actual = actual


async def test_a_call_waits_for_what_those_under_way_turn_out_to_use() -> None:
    budget, done = Budget(max_tokens=100), asyncio.Event()
    first = asyncio.create_task(call(budget, Spend(60), Spend(10), done))
    await asyncio.sleep(0)
    second = asyncio.create_task(call(budget, Spend(60), Spend(5)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not second.done()
    done.set()
    await asyncio.gather(first, second)
    assert budget.spent.tokens == 15


async def test_a_budget_is_spent_only_once_no_call_is_under_way() -> None:
    budget, done = Budget(max_tokens=100), asyncio.Event()
    first = asyncio.create_task(call(budget, Spend(60), Spend(60), done))
    await asyncio.sleep(0)
    second = asyncio.create_task(call(budget, Spend(60), Spend(60)))
    await asyncio.sleep(0.01)
    assert not second.done()
    done.set()
    await first
    with pytest.raises(BudgetSpent, match="budget of 100 tokens: 60 used, and the next call may take 60"):
        await second


async def test_what_a_batch_gives_back_lets_waiting_calls_go_on() -> None:
    budget, done = Budget(max_tokens=100), asyncio.Event()
    assert budget.hold(Spend(60))
    online = asyncio.create_task(call(budget, Spend(30), Spend(30), done))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(call(budget, Spend(50), Spend(50)))
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.settle(Spend(60), Spend(10))
    async with asyncio.timeout(5):
        await waiting
    done.set()
    await online
    assert budget.spent.tokens == 90


async def test_a_call_does_not_wait_for_batches_when_no_other_call_is_under_way() -> None:
    budget, done = Budget(max_tokens=100), asyncio.Event()
    assert budget.hold(Spend(60))
    online = asyncio.create_task(call(budget, Spend(30), Spend(30), done))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(call(budget, Spend(50), Spend(50)))
    await asyncio.sleep(0)
    done.set()
    await online
    async with asyncio.timeout(5):
        with pytest.raises(BudgetHeld):
            await waiting


async def test_a_call_that_is_cancelled_while_it_waits_reserves_nothing() -> None:
    budget, done = Budget(max_tokens=100), asyncio.Event()
    first = asyncio.create_task(call(budget, Spend(60), Spend(0), done))
    await asyncio.sleep(0)
    second = asyncio.create_task(call(budget, Spend(60), Spend(60)))
    await asyncio.sleep(0.01)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    done.set()
    await first
    await call(budget, Spend(100), Spend(100))


async def test_a_cost_is_capped_beside_the_tokens() -> None:
    budget = Budget(max_tokens=10**6, max_cost=1.0)
    await call(budget, Spend(10, 0.9), Spend(10, 0.6))
    with pytest.raises(BudgetSpent, match=r"budget of 1: 0\.6 used, and the next call may cost 0\.5"):
        await call(budget, Spend(10, 0.5), Spend(10, 0.5))


CALLS = st.lists(
    st.integers(0, 50).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most))), max_size=20
)


@given(cap=st.integers(0, 120), calls=CALLS)
def test_no_order_of_calls_breaks_a_budget(cap: int, calls: list[tuple[int, int]]) -> None:
    async def play() -> None:
        budget = Budget(max_tokens=cap)
        outcomes = await asyncio.gather(
            *(call(budget, Spend(most), Spend(actual)) for most, actual in calls), return_exceptions=True
        )
        used = sum(actual for (_, actual), outcome in zip(calls, outcomes, strict=True) if outcome is None)
        assert budget.spent.tokens == used <= cap
        assert all(outcome is None or isinstance(outcome, BudgetSpent) for outcome in outcomes)
        refused = [most for (most, _), outcome in zip(calls, outcomes, strict=True) if outcome is not None]
        assert all(used + most > cap for most in refused) or not refused

    asyncio.run(play())


Write = Callable[[str, str], Path]


def test_a_cost_is_that_of_a_million_tokens() -> None:
    assert Price(input=1.5, output=10).cost(2_000_000, 100_000) == 4.0


@pytest.mark.parametrize(("cached_price", "cost"), [(0.5, 2.0), (0.0, 1.5), (None, 3.0)])
def test_cached_tokens_cost_what_is_said_or_else_as_others(cached_price: float | None, cost: float) -> None:
    price = Price(input=1.5, output=10, cached_input=cached_price)
    assert price.cost(2_000_000, 0, cached_tokens=1_000_000) == cost
    assert price.cost(2_000_000, 0) == 2 * price.input


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("models: {a: {input: 1}}", "models.a.output: Field required"),
        ("models: {a: {input: -1, output: 1}}", "models.a.input: Input should be greater"),
        ("models: {a: {input: 1, output: 1, cache: 1}}", "models.a.cache: Extra inputs"),
        ("prices: {}", "models: Field required"),
        ("- 1", "the file: Input should be"),
        ("", "the file: Input should be"),
        ("models: {a: [", "while parsing"),
        ("models: {}\nmodels: {}", "duplicate key 'models'; keep one of them"),
        ("#" * ((1 << 20) + 1), "is longer than 1 MB"),
        ("models: {a: {input: .nan, output: 1}}", "models.a.input: Input should be"),
        ("models: {a: {input: .inf, output: 1}}", "models.a.input: Input should be"),
    ],
)
def test_a_price_file_that_cannot_be_used_is_one_line(write: Write, text: str, fault: str) -> None:
    path = write("prices.yaml", text)
    with pytest.raises(ModelError) as caught:
        load_prices(path)
    assert f"price file {path}: " in str(caught.value)
    assert fault in str(caught.value) and "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(ModelError, match=r"prices\.yaml: No such file"):
        load_prices(path)
