from __future__ import annotations

import pytest

from runs.record.case_summary import CaseSummary
from viewer.charts import figures


def case(seconds: float | None = 1.0, tokens: int = 100, intent: str | None = "a") -> CaseSummary:
    return CaseSummary(
        case_id="x",
        position=0,
        status="done",
        error=None,
        intent=intent,
        flags=(),
        sentences=3,
        essential=1,
        votes=3,
        divided=1,
        wrong=None,
        votes_by_count=(1, 0, 2),
        answered=True,
        route=(),
        calls=1,
        input_tokens=tokens,
        output_tokens=0,
        seconds=seconds,
        started_at=None,
        outcome=None,
    )


def test_a_run_without_cases_has_empty_charts() -> None:
    made = figures([])
    assert {name: chart.bars for name, chart in made.items()} == dict.fromkeys(made, ())
    assert [chart.note.endswith("No case yet.") for chart in made.values()] == [True] * 4


def test_votes_are_counted_up_to_the_most_there_can_be() -> None:
    assert figures([case(), case()])["votes"].bars == (("0", 2), ("1", 0), ("2", 4), ("3", 0))


@pytest.mark.parametrize(
    "values", [(0.0, 0.0), (5.0,), (0.001, 0.002), (1.0, 1e6), (3.0, 3.1, 99.0), (0.3, 0.6, 0.9)]
)
def test_a_histogram_holds_every_value_in_few_bins(values: tuple[float, ...]) -> None:
    bars = figures([case(seconds=value) for value in values])["seconds"].bars
    assert sum(count for _, count in bars) == len(values)
    assert 1 <= len(bars) <= 14
    assert bars[-1][1] > 0


def test_rare_intents_are_counted_together() -> None:
    cases = [case(intent=f"i{number}") for number in range(13) for _ in range(20 - number)]
    bars = figures([*cases, case(intent=None)])["intents"].bars
    assert bars[0] == ("i0", 20)
    assert bars[-1] == ("others", 10 + 9 + 8 + 1)
