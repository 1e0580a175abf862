from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ranking.models.config import ModelConfig
from ranking.models.fusions import build_model
from ranking.models.window import WindowFusion, plan_windows
from tests.ranking.models.tiny import encoder, texts

SENTENCES = texts(9, 3, 1, 7, 9)
QUERIES = texts(7, 4)


def model(window_tokens: int = 96, **options: object) -> WindowFusion:
    loaded = encoder()
    torch.manual_seed(1)
    given = {"fusion": "window", "max_query_tokens": 16, "max_window_tokens": window_tokens, **options}
    built = build_model(ModelConfig.model_validate(given), loaded).eval()
    assert isinstance(built, WindowFusion)
    return built


@pytest.mark.parametrize(("pooling", "first"), [("mean", 10), ("cls", 13)])
def test_a_sentences_vector_lies_in_the_row_of_all_sentences(pooling: str, first: int) -> None:
    window = model(pooling=pooling)
    query, one, two = texts(4, 3, 3)
    row = [2, *query, 3, *one, 3, *two, 3]
    types = [0] * 6 + [1] * 8
    with torch.inference_mode():
        states = window.backbone.encoder(
            input_ids=torch.tensor([row]), token_type_ids=torch.tensor([types])
        ).last_hidden_state[0]
        expected = window.head.linear(states[first:14].mean(0))
        assert torch.allclose(window([one, two], [query])[0, 1], expected, atol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("budget", [1, 10_000])
def test_queries_and_batches_do_not_mix(pooling: str, budget: int) -> None:
    window = model(window_tokens=48, pooling=pooling)
    document = SENTENCES * 4
    with torch.inference_mode():
        window.backbone.token_budget = budget
        together = window(document, QUERIES)
        apart = torch.cat([window(document, [query]) for query in QUERIES])
    assert torch.allclose(together, apart, atol=1e-5)


def test_a_neighbour_changes_the_score() -> None:
    window = model()
    with torch.inference_mode():
        alone, beside = window(SENTENCES[:1], QUERIES), window(SENTENCES[:2], QUERIES)
    assert (alone[:, 0] - beside[:, 0]).abs().min() > 1e-3


def test_a_sentence_longer_than_a_window_is_cut() -> None:
    with torch.inference_mode():
        assert model(window_tokens=40)(texts(120, 5), QUERIES).isfinite().all()


def test_no_window_exceeds_the_encoders_positions() -> None:
    with torch.inference_mode():
        assert model(window_tokens=5000)(texts(*[30] * 20), QUERIES).shape == (2, 20)


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="max_window_tokens 32 leaves no room"):
        model(window_tokens=32)


def test_gradients_flow_through_both_poolings() -> None:
    for pooling in ("cls", "mean"):
        window = model(pooling=pooling).train()
        window(SENTENCES, QUERIES).square().sum().backward()
        without = [name for name, weight in window.named_parameters() if weight.grad is None]
        assert all("pooler" in name for name in without)


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
