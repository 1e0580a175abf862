from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ranking.examples import Example
from ranking.models.config import ModelConfig
from ranking.models.fusions import build_model
from ranking.training.documents import prepare, query_groups
from ranking.training.loop import PhasePlan, Session, SilentWatcher, accumulate_gradients, epoch_order
from ranking.training.recipe import TRAINING_RECIPES, ObjectiveSettings, TrainingRecipe
from ranking.training.state import Position
from tests.ranking.models.tiny import encoder, tokenizer
from tests.ranking.training.tiny import examples


def same_document(count: int) -> list[Example]:
    first = examples(1)[0]
    return [replace(one, sentences=first.sentences, document_id="d") for one in examples(count)]


def test_examples_of_one_document_are_one_step() -> None:
    prepared = prepare(same_document(3), tokenizer(), ModelConfig())
    (document,) = prepared.documents
    assert len(document.queries) == 3
    assert [document.labels(query).index(True) for query in range(3)] == [0, 1, 2]


def test_a_long_document_keeps_all_evidence_in_order() -> None:
    labels = tuple(place in (3, 90) for place in range(100))
    example = replace(examples(1)[0], sentences=tuple(f"lung {n}" for n in range(100)), labels=labels)
    prepared = prepare([example], tokenizer(), ModelConfig(), max_sentences=10)
    (document,) = prepared.documents
    assert prepared.shortened == 1
    assert len(document.sentences) == 10
    assert list(document.places) == sorted(document.places)
    assert {3, 90} <= set(document.places)
    assert document.labels(0).count(True) == 2


def gradients(max_pairs: int, model: Any, of: list[Example] | None = None) -> list[torch.Tensor]:
    (document,) = prepare(of or same_document(3), tokenizer(), ModelConfig()).documents
    recipe = TRAINING_RECIPES.check(TrainingRecipe, {"max_pairs": max_pairs}, "tiny")
    plan = PhasePlan("train", (document,), 1, ObjectiveSettings())
    session = Session(
        recipe=recipe,
        device=torch.device("cpu"),
        precision="float32",
        folder=Path("nowhere"),
        position=Position(),
        resumed=False,
        watcher=SilentWatcher(),
        stopping=lambda: False,
    )
    model.zero_grad()
    accumulate_gradients(session, plan, model, document)
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("fusion", ["early", "late"])
def test_a_document_in_several_passes_has_the_gradient_of_one_pass(fusion: str) -> None:
    model = build_model(ModelConfig.model_validate({"fusion": fusion}), encoder()).eval()
    for one, many in zip(gradients(1000, model), gradients(1, model), strict=True):
        torch.testing.assert_close(one, many, atol=1e-5, rtol=1e-4)


def test_a_query_that_is_asked_twice_weighs_no_more_than_once() -> None:
    model = build_model(ModelConfig(), encoder()).eval()
    one, two = examples(1)[0], replace(examples(1)[0], id="again")
    for once, twice in zip(gradients(1, model, [one]), gradients(1, model, [one, two]), strict=True):
        torch.testing.assert_close(once, twice, atol=1e-5, rtol=1e-4)


def test_queries_are_parted_by_their_pairs() -> None:
    (document,) = prepare(same_document(3), tokenizer(), ModelConfig()).documents
    early = build_model(ModelConfig(), encoder())
    assert query_groups(document, 8, early) == [range(0, 2), range(2, 3)]


def test_an_epoch_has_an_order_of_its_own_that_repeats() -> None:
    first = epoch_order(50, 1, "train", 0)
    assert first == epoch_order(50, 1, "train", 0)
    assert first != epoch_order(50, 1, "train", 1)
    assert sorted(first) == list(range(50))
