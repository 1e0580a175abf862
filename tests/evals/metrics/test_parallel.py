from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from evals.metrics import parallel
from evals.metrics.bleu import Bleu
from evals.metrics.parallel import score_texts
from evals.metrics.rouge import Rouge
from evals.metrics.sari import Sari
from evals.metrics.text_metric import TextMetric, TextPair

_PAIRS = [TextPair(f"a b c {number} d e f", f"a b c {number % 7} d", "a x y") for number in range(1001)]


class _Process:
    """A metric that tells where it runs, and cannot be sent elsewhere."""

    names = ("process",)

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        return [(os.getpid(),) for _ in pairs]

    def __reduce__(self) -> str:
        raise AssertionError("a model was sent to another process")


def test_many_pairs_score_as_few_do(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics: list[TextMetric] = [Bleu(), Rouge(), Sari()]
    monkeypatch.setattr(parallel, "processors", lambda: 2)
    spread = score_texts(metrics, _PAIRS)
    monkeypatch.setattr(parallel, "processors", lambda: 1)
    assert spread == score_texts(metrics, _PAIRS)
    assert [len(values) for values in spread.values()] == [len(_PAIRS)] * 6


def test_scores_come_by_name_in_the_order_of_metrics_and_pairs() -> None:
    scores = score_texts([Sari(), Bleu()], _PAIRS[:3])
    assert list(scores) == ["sari", "bleu"]
    assert scores["bleu"] == [row[0] for row in Bleu().score(_PAIRS[:3])]


def test_models_stay_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "processors", lambda: 2)
    scores = score_texts([_Process(), Bleu()], _PAIRS)
    assert set(scores["process"]) == {os.getpid()}
    assert len(scores["bleu"]) == len(_PAIRS)


def test_no_pairs_give_no_scores() -> None:
    assert score_texts([Bleu(), _Process()], []) == {"bleu": [], "process": []}


def test_no_metrics_give_nothing() -> None:
    assert score_texts([], _PAIRS) == {}
