from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ranking.logistic import LogisticRanker, fit_logistic
from ranking.models.build import build_model
from ranking.models.config import ModelConfig
from ranking.neural import NeuralRanker
from ranking.scoring import average_precision
from ranking.splits import split
from ranking.training.documents import Document, prepare
from ranking.training.prior import add_prior, start_at_prior, with_prior
from tests.ranking.models.tiny import encoder, tokenizer
from tests.ranking.test_logistic import WordVectors
from tests.ranking.training.conftest import Train
from tests.ranking.training.tiny import examples


@pytest.fixture(scope="module")
def prior() -> LogisticRanker:
    return fit_logistic(examples(), vectors=WordVectors())


def document_of_two_queries() -> Document:
    first, second = examples(2)
    same = replace(second, sentences=first.sentences, document_id=first.document_id)
    (document,) = prepare([first, same], tokenizer(), ModelConfig(), max_sentences=3, seed=1).documents
    return document


def test_each_query_of_a_shortened_document_has_the_priors_scores_of_what_is_left(
    prior: LogisticRanker,
) -> None:
    document = document_of_two_queries()
    (found,) = with_prior(prepare(document.examples, tokenizer(), ModelConfig()), prior).documents
    whole = [prior.rank(one.query, one.sentences).scores for one in document.examples]
    np.testing.assert_allclose(found.prior, whole, atol=1e-6)
    shortened = prepare(document.examples, tokenizer(), ModelConfig(), max_sentences=3, seed=1)
    (found,) = with_prior(shortened, prior).documents
    assert len(found.places) == 3
    np.testing.assert_allclose(found.prior, [row[list(found.places)] for row in whole], atol=1e-6)


def test_before_the_first_step_the_sum_is_the_prior(prior: LogisticRanker) -> None:
    (document,) = with_prior(
        prepare(document_of_two_queries().examples, tokenizer(), ModelConfig()), prior
    ).documents
    model = build_model(ModelConfig(max_query_tokens=8, max_sentence_tokens=8), encoder()).eval()
    start_at_prior(model.head.linear)
    with torch.inference_mode():
        scores = add_prior(model(document.sentences, document.queries), document, [0, 1])
    np.testing.assert_allclose(scores.numpy(), document.prior, atol=1e-6)


def test_without_a_prior_logits_stay_as_they_are() -> None:
    logits = torch.randn(2, 3)
    assert add_prior(logits, document_of_two_queries(), [0, 1]) is logits


def test_a_reopened_ranker_scores_as_it_was_validated(tiny_train: Train, tmp_path: Path) -> None:
    """With the packaged encoder behind the prior, as users have it."""
    manifest = tiny_train(tmp_path / "r", prior="logistic")
    ranker = NeuralRanker.open(tmp_path / "r")
    held_out = split(examples(), 0.3, 1).held_out
    rows = [ranker.rank(one.query, one.sentences).scores for one in held_out]
    found = [average_precision(row, one.labels or ()) for row, one in zip(rows, held_out, strict=True)]
    assert np.mean([value for value in found if value is not None]) == pytest.approx(
        manifest.held_out.average_precision
    )
    assert manifest.prior is not None
    alone = LogisticRanker(manifest.prior).rank(held_out[0].query, held_out[0].sentences).scores
    assert not np.allclose(rows[0], alone, atol=1e-4)
