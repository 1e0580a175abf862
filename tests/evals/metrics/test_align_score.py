from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import nltk
import pytest
import torch
from transformers import AutoTokenizer, RobertaConfig, RobertaModel

from evals.metrics.align_score import AlignScore, context_chunks, punkt_sentences
from evals.metrics.text_metric import TextPair
from storage.errors import InputError
from tests.evals.metrics.nltk_data import save_punkt
from tests.evals.metrics.tiny_models import save_alignscore, save_roberta


class _Saved(NamedTuple):
    backbone: Path
    checkpoint: Path
    weights: dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> _Saved:
    folder = tmp_path_factory.mktemp("models")
    backbone = save_roberta(folder / "roberta")
    checkpoint = folder / "AlignScore.ckpt"
    return _Saved(backbone, checkpoint, save_alignscore(checkpoint, backbone))


@pytest.fixture(scope="module")
def metric(saved: _Saved) -> AlignScore:
    return AlignScore(saved.checkpoint, saved.backbone, _split)


def test_it_is_the_definition_written_out(metric: AlignScore, saved: _Saved) -> None:
    context = "The pump was stopped. " * 60 + "He became drowsy. " * 60  # two chunks, of a kind each
    claim = "The pump was given. Oral paracetamol was stopped. He was given instead."
    by_sentence = [
        max(_aligned(saved, chunk, sentence) for chunk in context_chunks(context, _split))
        for sentence in _split(claim)
    ]
    score = metric.score([TextPair(claim, context)])[0][0]
    assert score == pytest.approx(sum(by_sentence) / 3, abs=1e-5)


def test_the_reference_is_the_context(metric: AlignScore, saved: _Saved) -> None:
    score = metric.score([TextPair("He became drowsy.", "The pump was stopped.")])[0][0]
    assert score == pytest.approx(_aligned(saved, "The pump was stopped.", "He became drowsy."))


def test_the_context_alone_is_cut(metric: AlignScore, saved: _Saved) -> None:
    context, claim = "Oral paracetamol was given.", "drowsy " * 9 + "pump."
    score = metric.score([TextPair(claim, context * 3)])[0][0]
    assert score == pytest.approx(_aligned(saved, " ".join([context] * 3), claim), abs=1e-5)


def test_a_sentence_longer_than_the_model_is_cut(metric: AlignScore, saved: _Saved) -> None:
    context, claim = "Oral paracetamol was given. " * 30, "drowsy " * 150
    cut = _aligned(saved, " ".join(_split(context)), claim.strip(), truncation=True)
    assert metric.score([TextPair(claim, context)])[0][0] == pytest.approx(cut, abs=1e-5)


def test_a_prediction_without_sentences_scores_0(metric: AlignScore) -> None:
    assert metric.score([TextPair("", "The pump was stopped.")]) == [(0,)]


def test_an_empty_context_is_an_empty_chunk(metric: AlignScore, saved: _Saved) -> None:
    expected = _aligned(saved, "", "He became drowsy.")
    assert metric.score([TextPair("He became drowsy.", "")])[0][0] == pytest.approx(expected)


def test_a_context_of_350_words_has_two_chunks() -> None:
    """As in the reference implementation, whose division rounds up already at 350."""
    assert len(context_chunks("a b c d e. " * 69 + "a b c d.", _split)) == 1
    assert [len(chunk.split()) for chunk in context_chunks("a b c d e. " * 70, _split)] == [175, 175]


def test_sentences_left_over_are_a_chunk_of_their_own() -> None:
    chunks = context_chunks(("a " * 139 + "b. ") * 5, _split)  # 700 words: three parts of one sentence each
    assert len(chunks) == 5


def test_punkt_is_read_from_nltk_s_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(save_punkt(tmp_path / "data"))])
    split = punkt_sentences()
    assert split is not None
    assert split("Dr. Lee came. He left.") == ["Dr. Lee came.", "He left."]


def test_without_its_data_there_is_no_punkt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    assert punkt_sentences() is None


def test_a_checkpoint_with_other_objects_is_not_run(saved: _Saved, tmp_path: Path) -> None:
    path = tmp_path / "objects.ckpt"
    torch.save({"state_dict": saved.weights, "hyper_parameters": argparse.Namespace(a=1)}, path)
    with pytest.raises(InputError, match="holds Python objects other than tensors") as caught:
        AlignScore(path, saved.backbone, _split)
    assert "weights_only=False" in caught.value.remedy


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"weights": {}}, "no state_dict in it"),
        ({"state_dict": {}}, r"no base_model\.\S+ in it"),
        (
            {"state_dict": {"base_model.pooler.dense.bias": torch.zeros(7)}},
            "of another size than the backbone",
        ),
    ],
)
def test_another_checkpoint_is_refused(content: Any, fault: str, saved: _Saved, tmp_path: Path) -> None:
    path = tmp_path / "other.ckpt"
    torch.save(content, path)
    with pytest.raises(InputError, match=fault):
        AlignScore(path, saved.backbone, _split)


def test_a_file_that_is_no_checkpoint_is_refused(saved: _Saved, tmp_path: Path) -> None:
    path = tmp_path / "text.ckpt"
    path.write_text("no checkpoint")
    with pytest.raises(InputError, match=r"text\.ckpt"):
        AlignScore(path, saved.backbone, _split)


def _split(text: str) -> list[str]:
    return [f"{sentence.strip()}." for sentence in text.split(".") if sentence.strip()]


def _aligned(saved: _Saved, chunk: str, sentence: str, truncation: Any = "only_first") -> float:
    """One pair, padded to the full length as the reference implementation does."""
    tokenizer: Any = AutoTokenizer.from_pretrained(saved.backbone)
    encoded = tokenizer(
        chunk, sentence, truncation=truncation, padding="max_length", max_length=96, return_tensors="pt"
    )
    factory: Any = RobertaModel
    model = factory(RobertaConfig.from_pretrained(saved.backbone))
    prefix = "base_model."
    own = {key.removeprefix(prefix): each for key, each in saved.weights.items() if key.startswith(prefix)}
    model.load_state_dict(own, strict=False)
    with torch.no_grad():
        pooled = model.eval()(**encoded).pooler_output[0]
    logits = saved.weights["tri_layer.weight"] @ pooled + saved.weights["tri_layer.bias"]
    return float(logits.softmax(dim=-1)[0])
