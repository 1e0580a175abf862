"""The benchmark of corpora: what it makes, what it compares, what it extrapolates."""

from __future__ import annotations

import pytest

from benchmarks import corpus
from benchmarks.abstracts import base_documents, questions, repeated
from benchmarks.corpus import AIM, extrapolated
from evals.bench.benchmark import BenchError

QUANTITIES = ("processor_seconds", "peak_mb", "disk_bytes", "query_processor_ms")


def row(size: int, value: float) -> dict[str, float]:
    return {"documents": size, **dict.fromkeys(QUANTITIES, value)}


def test_copies_differ_and_the_first_round_does_not() -> None:
    base = base_documents(None)
    documents = list(repeated(base, 60))
    assert documents[:24] == base
    assert len({document.id for document in documents}) == 60
    assert len({document.text for document in documents}) == 60
    assert documents == list(repeated(base, 60))


def test_questions_are_as_many_as_asked() -> None:
    assert len(questions(base_documents(None), 100)) == 100


def test_both_sides_rank_alike() -> None:
    options = corpus.Options(documents=120, queries=20, repeats=1)
    details = corpus.measure(options, lambda text: None).details
    assert details["same_up_to_equal_scores"] == 20
    assert details["same_ranking"] >= 18


def test_another_ranking_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "K1", 3.0)
    with pytest.raises(BenchError, match="the rankings differ"):
        corpus.measure(corpus.Options(documents=120, queries=20, repeats=1), lambda text: None)


def test_extrapolation_goes_on_as_the_last_two_sizes_did() -> None:
    found = extrapolated([row(10, 99), row(1000, 4), row(100_000, 40)])["peak_mb"]
    assert found["exponent"] == 0.5
    assert found["by_exponent"] == pytest.approx(40 * (AIM / 100_000) ** 0.5, rel=0.01)
    assert found["linear"] == pytest.approx(40 * AIM / 100_000)
