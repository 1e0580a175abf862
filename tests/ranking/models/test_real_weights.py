from __future__ import annotations

from typing import Any

import pytest
import torch

from ranking.encoding.encoders import Encoder, encoder_folder, load_encoder
from ranking.models.config import ModelConfig
from ranking.models.fusions import build_model
from ranking.models.model import EvidenceModel
from ranking.models.tokens import tokenize

NOTE = [
    "The patient came in with a fever of 39.1 degrees and a wet cough that had lasted for nine days.",
    "",
    "Oxygen.",
    "A film of the chest showed a new shadow over the lower part of the right lung, with a little fluid.",
    "She was given ceftriaxone and azithromycin by vein, and the fever settled on the third day.",
]
QUESTIONS = ["Why was I kept on oxygen?", "Do I still have to take the blood thinner that I was given?"]


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    return load_encoder(encoder_folder("minilm"))


def build(encoder: Encoder, fusion: str, context: str = "lstm") -> EvidenceModel[Any]:
    torch.manual_seed(0)
    config = {"fusion": fusion, "context": context, "position": True}
    return build_model(ModelConfig.model_validate(config), encoder).eval()


@pytest.mark.parametrize("fusion", ["mid", "late"])
def test_cached_logits_equal_uncached_ones(minilm: Encoder, fusion: str) -> None:
    model = build(minilm, fusion)
    queries = tokenize(minilm.tokenizer, QUESTIONS, 64).ids
    sentences = tokenize(minilm.tokenizer, NOTE, 128).ids
    with torch.inference_mode():
        source = model.encode_source(sentences)
        cached = torch.cat([model.score(source, [query]) for query in queries])
        uncached = model(sentences, queries)
    assert torch.allclose(cached, uncached, atol=1e-5, rtol=0)


@pytest.mark.parametrize("fusion", ["early", "mid", "late"])
def test_the_logits_of_a_query_do_not_depend_on_the_other_queries(minilm: Encoder, fusion: str) -> None:
    model = build(minilm, fusion)
    sentences, queries = (tokenize(minilm.tokenizer, texts, 64).ids for texts in (NOTE, QUESTIONS))
    with torch.inference_mode():
        together = model(sentences, queries)
        apart = torch.cat([model(sentences, [query]) for query in queries])
    assert together.isfinite().all()
    assert torch.allclose(together, apart, atol=1e-5, rtol=0)


@pytest.mark.parametrize("fusion", ["early", "mid", "late"])
def test_without_context_the_logit_of_a_sentence_does_not_depend_on_the_others(
    minilm: Encoder, fusion: str
) -> None:
    torch.manual_seed(0)
    model = build_model(ModelConfig.model_validate({"fusion": fusion}), minilm).eval()
    sentences, queries = (tokenize(minilm.tokenizer, texts, 64).ids for texts in (NOTE, QUESTIONS[:1]))
    with torch.inference_mode():
        together = model(sentences, queries)[0]
        apart = torch.cat([model([sentence], queries)[0] for sentence in sentences])
    assert torch.allclose(together, apart, atol=1e-5, rtol=0)
