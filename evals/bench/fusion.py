"""Queries a second of the fusion types against EarlyFusion, on the same backbone and in float32.

A document is encoded once; then its queries are asked one at a time, as a reader would. Heads are untrained:
their answers mean nothing, but take as long. Tokenization is part of every time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from cases.texts import plural
from evals.bench.benchmark import BenchError, Part, Report, Result
from evals.bench.measuring import turns
from ranking.encoding.encoders import MINILM, Encoder, encoder_folder, load_encoder
from ranking.models.config import ModelConfig
from ranking.models.fusions import build_model
from ranking.models.model import EvidenceModel
from ranking.models.tokens import tokenize

_WORDS = (
    "patient fever cough lung film oxygen night blood heart pain left right clinic home day week drug dose"
    " water sleep food nurse hand foot back skin bone eye year month test room"
)
_SENTENCE_TOKENS = 25
_QUERY_TOKENS = 20
MODELS: Mapping[str, ModelConfig] = {
    "early": ModelConfig(fusion="early", context="lstm"),
    "mid": ModelConfig(fusion="mid", context="lstm"),
    "late": ModelConfig(fusion="late", context="lstm"),
    "cross_encoder": ModelConfig(fusion="early", context="none"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Sentences of both documents, queries of each, repeats on the shorter and on the longer."""

    sentences: int = 60
    long_sentences: int = 300
    queries: int = 20
    repeats: int = 5
    long_repeats: int = 1


TINY = {"sentences": 2, "long_sentences": 3, "queries": 2, "repeats": 2}


@dataclass(slots=True)
class Times:
    """Seconds of one model on one document, in each repeat.

    Attributes:
        encoding: To encode the document.
        queries: To answer each query, in order.
    """

    encoding: list[float] = field(default_factory=list)
    queries: list[list[float]] = field(default_factory=list)

    @property
    def cold_ms(self) -> float:
        """Time to the first answer."""
        pairs = zip(self.encoding, self.queries, strict=True)
        return 1000 * median(encoding + queries[0] for encoding, queries in pairs)

    @property
    def warm(self) -> list[float]:
        """Queries a second after the first query, of each repeat."""
        return [(len(queries) - 1) / sum(queries[1:]) for queries in self.queries]

    @property
    def amortised(self) -> float:
        """Queries a second, the encoding of the document included."""
        pairs = zip(self.encoding, self.queries, strict=True)
        return median(len(queries) / (encoding + sum(queries)) for encoding, queries in pairs)


def measure(options: Options, report: Report) -> Result:
    """Time every model on both documents.

    Raises:
        BenchError: Fewer than two queries.
    """
    if options.queries < 2:
        raise BenchError("fusion needs 2 queries: the first one is cold")
    encoder = load_encoder(encoder_folder(MINILM))
    torch.manual_seed(0)
    models = {name: build_model(config, encoder).eval() for name, config in MODELS.items()}
    short = _time_all(models, encoder, options.sentences, options.queries, options.repeats, report)
    long = _time_all(models, encoder, options.long_sentences, options.queries, options.long_repeats, report)
    return result(short, long, options)


def _time_all(
    models: Mapping[str, EvidenceModel[Any]],
    encoder: Encoder,
    sentences: int,
    queries: int,
    repeats: int,
    report: Report,
) -> dict[str, Times]:
    document = texts(sentences, _SENTENCE_TOKENS)
    asked = texts(queries, _QUERY_TOKENS)
    report(f"warming up on {plural(sentences, 'sentence')}")
    for model in models.values():
        _time(model, encoder, document, asked[:2], Times())
    times = {name: Times() for name in models}
    for _, name in turns(list(models), repeats, report, of=f"{plural(sentences, 'sentence')}, "):
        _time(models[name], encoder, document, asked, times[name])
    return times


def _time(
    model: EvidenceModel[Any], encoder: Encoder, document: Sequence[str], queries: Sequence[str], times: Times
) -> None:
    """One encoding of the document, then one query at a time."""
    with torch.inference_mode():
        start = time.perf_counter()
        source = model.encode_source(tokenize(encoder.tokenizer, document, 128).ids)
        times.encoding.append(time.perf_counter() - start)
        seconds = []
        for query in queries:
            start = time.perf_counter()
            logits = model.score(source, tokenize(encoder.tokenizer, [query], 64).ids)
            logits.sigmoid().tolist()
            seconds.append(time.perf_counter() - start)
        times.queries.append(seconds)


def texts(count: int, tokens: int) -> list[str]:
    """Different texts of so many words, each of them one token of MiniLM."""
    words = _WORDS.split()
    size = len(words)
    found = []
    for number in range(count):
        step, start = 1 + number % (size - 1), number // (size - 1)
        found.append(" ".join(words[(start + step * place) % size] for place in range(tokens)))
    return found


def result(short: Mapping[str, Times], long: Mapping[str, Times], options: Options) -> Result:
    """Ratios for the shorter document, and each model's figures for both."""
    early = median(short["early"].warm)
    return Result(
        "fusion",
        Part("MidFusion, warm", "queries/s", tuple(short["mid"].warm)),
        Part("EarlyFusion, warm", "queries/s", tuple(short["early"].warm)),
        figures={f"{name}_over_early": median(short[name].warm) / early for name in ("mid", "late")},
        details={
            "threads": torch.get_num_threads(),
            "dtype": "float32",
            f"sentences_{options.sentences}": _described(short),
            f"sentences_{options.long_sentences}": _described(long),
        },
    )


def _described(times: Mapping[str, Times]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "cold_ms": round(of.cold_ms, 1),
            "warm_queries_per_second": round(median(of.warm), 2),
            "amortised_queries_per_second": round(of.amortised, 2),
        }
        for name, of in times.items()
    }
