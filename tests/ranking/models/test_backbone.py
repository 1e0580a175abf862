from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ranking.models.backbone import chunks

LENGTHS = st.lists(st.integers(1, 300))


@given(LENGTHS, st.integers(1, 1000))
def test_every_row_is_in_one_group(lengths: list[int], budget: int) -> None:
    assert sorted(row for group in chunks(lengths, budget) for row in group) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 1000))
def test_a_padded_group_stays_within_the_budget(lengths: list[int], budget: int) -> None:
    for group in chunks(lengths, budget):
        assert len(group) == 1 or len(group) * max(lengths[row] for row in group) <= budget


def test_rows_of_like_length_go_together() -> None:
    assert chunks([5, 9, 5, 9], 18) == [[1, 3], [0, 2]]
