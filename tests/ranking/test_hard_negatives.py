"""Which documents a reranker is shown as not relevant."""

from __future__ import annotations

from ranking.hard_negatives import hard_negatives, shuffled

FOUND = [f"d{place}" for place in range(1000)]
GOLD = {"d0", "d3", "d500"}


def places(ids: list[str]) -> list[int]:
    return [FOUND.index(id_) for id_ in ids]


def test_half_are_from_the_first_hundred_places_and_half_from_behind() -> None:
    drawn = places(hard_negatives(FOUND, GOLD, 20, seed=1, question="q"))
    assert sum(place < 100 for place in drawn) == 10
    assert len(set(drawn)) == 20
    assert drawn == sorted(drawn)


def test_relevant_documents_are_never_drawn() -> None:
    assert not GOLD & set(hard_negatives(FOUND, GOLD, 2000, seed=1, question="q"))
    assert len(hard_negatives(FOUND, GOLD, 2000, seed=1, question="q")) == 997


def test_a_short_list_gives_what_it_has_from_the_other_half() -> None:
    assert len(hard_negatives(FOUND[:60], GOLD, 20, seed=1, question="q")) == 20
    assert places(hard_negatives(FOUND[:104], FOUND[:97], 20, seed=1, question="q")) == list(range(97, 104))


def test_a_draw_is_of_the_seed_and_the_question_alone() -> None:
    first = hard_negatives(FOUND, GOLD, 20, seed=1, question="q")
    assert first == hard_negatives(FOUND, GOLD, 20, seed=1, question="q")
    assert first != hard_negatives(FOUND, GOLD, 20, seed=2, question="q")
    assert first != hard_negatives(FOUND, GOLD, 20, seed=1, question="r")


def test_a_shuffled_list_holds_the_same_in_another_order() -> None:
    mixed = shuffled(FOUND[:20], seed=1, question="q")
    assert mixed != FOUND[:20]
    assert sorted(mixed) == sorted(FOUND[:20])
