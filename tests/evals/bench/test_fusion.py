from __future__ import annotations

from dataclasses import fields

import pytest

from evals.bench.benchmark import load
from evals.bench.fusion import MODELS, Options, Times, result, texts
from weights.registry import packaged_embedder


def times(encoding: float, *queries: float) -> Times:
    return Times([encoding] * 3, [list(queries)] * 3)


def test_the_first_query_is_cold_and_the_others_warm() -> None:
    of = times(0.5, 0.3, 0.1, 0.1)
    assert of.cold_ms == pytest.approx(800)
    assert of.warm == pytest.approx([10, 10, 10])
    assert of.amortised == pytest.approx(3)


def test_the_ratios_are_of_the_median_warm_rates_on_the_shorter_document() -> None:
    short = {
        "early": times(0, 9, 0.4),
        "mid": times(1, 9, 0.1),
        "late": times(1, 9, 0.01),
        "cross_encoder": times(0, 1, 1),
    }
    short["mid"].queries[0] = [9, 5.0]
    given = result(short, short, Options()).as_json()
    assert given["mid_over_early"] == 4
    assert given["late_over_early"] == 40


def test_texts_differ_and_have_as_many_tokens_as_was_asked() -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(packaged_embedder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    made = texts(300, 25)
    assert len(set(made)) == 300
    assert {len(tokenizer.encode(text, add_special_tokens=False).ids) for text in made} == {25}


def test_all_models_have_the_same_backbone() -> None:
    assert {config.encoder for config in MODELS.values()} == {"minilm"}


def test_tiny_values_are_options() -> None:
    benchmark = load("fusion")
    assert set(benchmark.TINY) <= {field.name for field in fields(benchmark.Options)}
