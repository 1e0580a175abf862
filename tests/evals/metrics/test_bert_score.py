from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, DistilBertModel

from evals.metrics.bert_score import BertScore
from evals.metrics.text_metric import TextPair, loading
from storage.errors import InputError
from tests.evals.metrics.tiny_models import save_distilbert

_BASELINE = 0.6014007
_TEXTS = [
    "the pump was stopped because he became drowsy .",
    "oral paracetamol given instead",
    "He became drowsy , the pump was stopped",
    "a b c " * 40,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield save_distilbert(tmp_path_factory.mktemp("models") / "distilbert")


@pytest.fixture(scope="module")
def metric(folder: Path) -> BertScore:
    return BertScore(folder)


def test_it_is_the_definition_written_out_for_each_pair(metric: BertScore, folder: Path) -> None:
    pairs = [TextPair(prediction, reference) for prediction in _TEXTS for reference in _TEXTS]
    raw = [_raw_f1(folder, pair.prediction, pair.reference) for pair in pairs]
    expected = [(f1 - _BASELINE) / (1 - _BASELINE) for f1 in raw]
    assert [score for (score,) in metric.score(pairs)] == pytest.approx(expected, abs=1e-5)


def test_a_text_matches_itself(metric: BertScore) -> None:
    assert metric.score([TextPair(_TEXTS[0], _TEXTS[0])])[0][0] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("prediction", "reference"), [("", "the pump"), ("the pump", ""), ("", ""), (" \n", "a")]
)
def test_an_empty_text_has_raw_0(metric: BertScore, prediction: str, reference: str) -> None:
    expected = (0 - _BASELINE) / (1 - _BASELINE)
    assert metric.score([TextPair(prediction, reference)])[0][0] == pytest.approx(expected)


def test_a_written_separator_weighs_nothing(metric: BertScore) -> None:
    """As in bert-score, which weighs by token id."""
    assert metric.score([TextPair("[SEP]", "the pump")]) == metric.score([TextPair("", "the pump")])


def test_scores_do_not_hang_on_the_batch(metric: BertScore) -> None:
    pairs = [TextPair(text, _TEXTS[0]) for text in _TEXTS * 5]
    one_by_one = [metric.score([pair])[0][0] for pair in pairs]
    assert [score for (score,) in metric.score(pairs)] == pytest.approx(one_by_one, abs=1e-5)


def test_damaged_weights_are_named(tmp_path: Path) -> None:
    broken = save_distilbert(tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(InputError, match=r"broken: cannot be loaded: .*Fetch the model again"):
        BertScore(broken)


@pytest.mark.parametrize("layers", [3, 7])
def test_a_model_that_lacks_layers_or_their_weights_is_named(tmp_path: Path, layers: int) -> None:
    other = save_distilbert(tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"n_layers": layers}))
    with pytest.raises(InputError, match="lacks weights of distilbert-base-uncased"):
        BertScore(other)


def test_loading_reports_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    BertScore(folder)
    assert capfd.readouterr() == ("", "")


def _raw_f1(folder: Path, prediction: str, reference: str) -> float:
    """From the fourth of all hidden states, without batches or masks."""
    similarity = _similarity(folder, prediction, reference)
    precision = float(similarity.amax(dim=1)[1:-1].mean())
    recall = float(similarity.amax(dim=0)[1:-1].mean())
    return 2 * precision * recall / (precision + recall)


def _similarity(folder: Path, prediction: str, reference: str) -> torch.Tensor:
    with loading(folder):
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        model: Any = DistilBertModel.from_pretrained(folder)
    states = []
    for text in (prediction, reference):
        ids = tokenizer(text, truncation=True, max_length=64, return_tensors="pt").input_ids
        with torch.no_grad():
            states.append(model(ids, output_hidden_states=True).hidden_states[4][0])
    predicted, wanted = states
    similarity: torch.Tensor = torch.cosine_similarity(predicted[:, None], wanted[None], dim=-1)
    return similarity
