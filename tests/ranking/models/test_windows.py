from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ranking.models.windows import plan_windows

LENGTHS = st.lists(st.integers(1, 20), max_size=60)
ROOM = st.integers(20, 80)


def test_a_document_that_fits_is_one_window() -> None:
    assert plan_windows([5, 5, 5], 15) == [(0, 3, range(3))]


def test_no_sentences_need_no_window() -> None:
    assert plan_windows([], 20) == []


def test_windows_overlap_by_half_and_judge_their_middle() -> None:
    assert plan_windows([1] * 8, 4) == [(0, 4, range(3)), (2, 6, range(3, 5)), (4, 8, range(5, 8))]


@given(LENGTHS, ROOM)
def test_each_sentence_is_judged_once_in_its_order(lengths: list[int], room: int) -> None:
    judged = [sentence for window in plan_windows(lengths, room) for sentence in window.judged]
    assert judged == list(range(len(lengths)))


@given(LENGTHS, ROOM)
def test_no_window_is_over_full_and_each_holds_what_it_judges(lengths: list[int], room: int) -> None:
    for start, end, judged in plan_windows(lengths, room):
        assert sum(lengths[start:end]) <= room
        assert start <= judged.start < judged.stop <= end


@given(st.lists(st.integers(1, 5), min_size=30, max_size=60))
def test_a_sentence_inside_a_long_document_has_context_on_both_sides(lengths: list[int]) -> None:
    for start, end, judged in plan_windows(lengths, 40):
        for sentence in judged:
            assert start == 0 or sum(lengths[start:sentence]) >= 3
            assert end == len(lengths) or sum(lengths[sentence + 1 : end]) >= 3
