"""Which cases a budget lets begin. A case here is one that uses a known number of tokens."""

from __future__ import annotations

import asyncio

import pytest

from runs.execute.admission import Admission
from runs.execute.rehearsal import Forecast
from runs.execute.watcher import Progress
from serving.protocol.budget import Budget, BudgetSpent, Spend
from serving.protocol.request import Usage

CALL = 10
FORECAST = Forecast(calls=4, spend=Spend(60), most=Spend(80), largest_call=Spend(CALL))


async def run(
    cap: int,
    sizes: dict[str, int],
    forecast: Forecast | None = FORECAST,
    answered: dict[str, Spend] | None = None,
) -> tuple[list[str], int, str]:
    """All cases at once, in calls of `CALL` tokens that reserve twice as much; who ended, use, and why."""
    budget = Budget(max_tokens=cap)
    admission = Admission(budget, forecast, answered)
    ended: list[str] = []
    why = ""

    async def case(name: str) -> None:
        nonlocal why
        spent = None
        try:
            await admission.begin(name)
        except BudgetSpent as error:
            why = why or str(error)
            return
        try:
            for _ in range(sizes[name] // CALL):
                async with budget.reserve(Spend(2 * CALL), name) as reservation:
                    await asyncio.sleep(0)
                    reservation.actual = Spend(CALL)
            ended.append(name)
        except BudgetSpent as error:
            spent, why = error, why or str(error)
        finally:
            await admission.end(name, whole=name in ended, spent=spent)

    async with asyncio.timeout(5):
        await asyncio.gather(*(case(name) for name in sizes))
    return ended, budget.spent.tokens, why


SAME = {f"case {number}": 40 for number in range(20)}


async def test_a_budget_is_used_for_cases_that_come_to_their_end() -> None:
    ended, used, why = await run(200, SAME)
    # A sixth would end at 240; a fifth would end at 200, but its last call reserves beyond that.
    assert (len(ended), used) == (4, 160)
    assert why == "budget of 200 tokens: 160 used, and the next case may take 60"


@pytest.mark.parametrize("cap", range(60, 840, 60))
async def test_no_call_is_made_for_a_case_that_does_not_end(cap: int) -> None:
    ended, used, _ = await run(cap, SAME)
    assert used == 40 * len(ended) <= cap
    assert ended


async def test_an_estimate_that_is_too_low_leaves_no_case_open() -> None:
    ended, used, _ = await run(400, SAME, Forecast(4, Spend(20), Spend(80), Spend(2 * CALL)))
    assert used == 40 * len(ended) and len(ended) == 9


async def test_short_cases_that_end_first_do_not_let_too_many_begin() -> None:
    sizes = {f"case {number}": 100 if number % 2 else 20 for number in range(40)}
    ended, used, _ = await run(1_200, sizes, Forecast(10, Spend(20), Spend(200), Spend(2 * CALL)))
    assert used == sum(sizes[name] for name in ended)
    assert used > 1_000


async def test_cases_of_earlier_sessions_say_what_a_case_takes() -> None:
    answered = {f"earlier {number}": Spend(40) for number in range(8)}
    budget = Budget(max_tokens=1_000, spent=Spend(800))
    admission = Admission(budget, Forecast(4, Spend(20), Spend(150), Spend(CALL)), answered, answered)
    begun = [name for name in SAME if await admission.begin(name, wait=False)]
    assert len(begun) == 4


async def test_without_a_limit_all_begin_at_once() -> None:
    admission = Admission(Budget(), None)
    async with asyncio.timeout(5):
        await asyncio.gather(*(admission.begin(name) for name in SAME))


async def test_one_case_may_try_where_only_an_estimate_says_that_it_is_too_large() -> None:
    assert (await run(60, SAME, Forecast(4, Spend(1_000), Spend(1_000), Spend(1_000))))[0] == ["case 0"]


@pytest.mark.parametrize("forecast", [FORECAST, None])
async def test_a_case_that_is_larger_than_the_budget_leaves_it_unbroken(forecast: Forecast | None) -> None:
    ended, used, why = await run(100, {"large": 200, "small": 20, "other": 20}, forecast)
    assert used <= 100 and "large" not in ended
    assert "and the next call may take 20" in why


async def test_a_case_under_way_that_takes_more_holds_others_back() -> None:
    # By what has ended, 40 tokens, a third would fit next to the large one.
    sizes = {"large": 110, "small": 40, "third": 40, "fourth": 40}
    ended, used, why = await run(200, sizes, Forecast(4, Spend(40), Spend(45), Spend(CALL)))
    assert sorted(ended) == ["large", "small", "third"]
    assert used == 190 and why.endswith("the next case may take 130")


async def test_answered_calls_of_an_earlier_session_are_not_expected_again() -> None:
    known = {name: Spend(40) for name in list(SAME)[1:]}
    replayed = {"case 0": 40, **dict.fromkeys(known, 0)}
    assert len((await run(80, replayed, answered=known))[0]) == 20


def progress(**fields: int | float) -> Progress:
    made = Progress(total=10, usage=Usage(calls=int(fields.pop("calls", 0)), input_tokens=1_000))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_progress_moves_with_the_calls_of_cases_under_way() -> None:
    before = progress(under_way=4, calls_a_case=8.0, calls=0)
    after = progress(under_way=4, calls_a_case=8.0, calls=20)
    assert (before.share, after.share) == (0.0, 0.25)
    assert after.pace(10.0) == (2.0, 100.0, 30.0)


def test_a_case_that_takes_more_calls_than_expected_is_expected_to_end() -> None:
    made = progress(done=9, under_way=1, calls_a_case=8.0, calls_ended=72, cases_ended=9, calls=72 + 30)
    assert made.calls_left == 0.0
    assert made.pace(10.0).seconds_left == 0.0


def test_without_an_expectation_cases_are_the_measure_and_no_time_is_named() -> None:
    made = progress(done=5, calls=40)
    assert (made.share, made.pace(10.0).seconds_left) == (0.5, None)
