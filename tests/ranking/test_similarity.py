"""Cosines of sentence vectors as a ranker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ranking.encoding.encoders import MINILM, encoder_folder, load_encoder
from ranking.encoding.vectors import Embedded, EncoderVectors, shared_vectors
from ranking.rankers.load import gives_logits, load_ranker, located
from ranking.rankers.similarity import SimilarityRanker
from weights.registry import WeightsError

NOTE = [
    "Heparin was stopped on day 3.",
    "Platelets fell to 40.",
    "Diet was regular.",
    "Platelets fell to 40.",
]


class Initials:
    """A text's vector points along its first letter; counts what it was asked."""

    identity = "initials@1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.asked += texts
        vectors = np.zeros((len(texts), 26), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row, ord(text[0].lower()) - ord("a")] = 1
        return Embedded(vectors, np.array([len(text) > 30 for text in texts], dtype=np.bool_))


@pytest.fixture(scope="module")
def cls_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged encoder, told to take its first token's state."""
    folder = tmp_path_factory.mktemp("encoders") / "tiny-bge"
    shutil.copytree(encoder_folder(MINILM), folder)
    flags = {
        "word_embedding_dimension": 384,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(flags))
    return folder


def test_the_nearest_meaning_ranks_first_and_equal_sentences_alike() -> None:
    scores = load_ranker("similarity").rank("Why did the platelet count drop?", NOTE).scores
    assert int(scores.argmax()) == 1
    assert scores[1] == scores[3]
    assert (np.abs(scores) <= 1 + 1e-6).all()


def test_a_second_query_embeds_the_query_alone() -> None:
    vectors = Initials()
    ranker = SimilarityRanker(vectors)
    ranker.rank("fever", NOTE)
    vectors.asked.clear()
    ranker.rank("cough", NOTE)
    assert vectors.asked == ["cough"]


def test_vectors_of_a_document_are_kept_in_files(tmp_path: Path) -> None:
    for expected in (["fever", "a", "b"], ["fever"]):
        vectors = Initials()
        ranker = SimilarityRanker(vectors)
        ranker.sources.folder = tmp_path
        ranker.rank("fever", ["a", "b"])
        assert vectors.asked == expected


def test_no_sentence_has_no_scores() -> None:
    assert load_ranker("similarity").rank("fever", []).scores.shape == (0,)


def test_long_texts_are_told() -> None:
    ranked = SimilarityRanker(Initials()).rank("q" * 40, ["short", "l" * 40])
    assert (ranked.cut_sentences, ranked.query_cut) == ((1,), True)


def test_pooling_is_that_of_the_folder(cls_folder: Path) -> None:
    by_first_token = EncoderVectors(str(cls_folder))
    (ours,) = by_first_token.embed(["Platelets fell."]).vectors
    (mean,) = shared_vectors().embed(["Platelets fell."]).vectors
    assert np.linalg.norm(ours) == pytest.approx(1, abs=1e-5)
    assert float(ours @ mean) < 0.99


def test_vectors_of_a_folder_are_those_of_sentence_transformers(cls_folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    (theirs,) = SentenceTransformer(str(cls_folder), device="cpu").encode(["Platelets fell."])
    (ours,) = EncoderVectors(str(cls_folder)).embed(["Platelets fell."]).vectors
    np.testing.assert_allclose(ours, theirs / np.linalg.norm(theirs), atol=1e-5)


def test_a_folder_is_a_ranker_of_its_own(cls_folder: Path) -> None:
    ranker = load_ranker(f"similarity:{cls_folder}")
    assert ranker.identity.startswith("similarity:tiny-bge@")
    assert ranker.identity != load_ranker("similarity").identity


@pytest.mark.parametrize(
    ("pooling", "shaping"),
    [
        ('{"pooling_mode": "cls", "include_prompt": true}', "cls 512"),
        ('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}', "cls 512"),
        ('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}', "cls+mean 512"),
        ("{}", "mean 512"),
    ],
)
def test_pooling_is_part_of_the_identity(tmp_path: Path, pooling: str, shaping: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(pooling)
    assert EncoderVectors(str(tmp_path)).identity.split(" ", 1)[1] == shaping


def test_the_limit_of_a_folder_is_part_of_the_identity(cls_folder: Path) -> None:
    assert EncoderVectors(str(cls_folder)).identity.split(" ", 1)[1] == "cls 256"


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_file_of_an_encoder_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "sentence_bert_config.json").write_text(content)
    with pytest.raises(WeightsError, match=r"sentence_bert_config\.json: "):
        _ = EncoderVectors(str(tmp_path)).identity


def test_a_folder_with_other_files_cannot_be_loaded(tmp_path: Path, cls_folder: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    incomplete = shutil.copytree(cls_folder, tmp_path / "incomplete")
    (incomplete / "1_Pooling" / "config.json").write_text("{}")
    for folder in (tmp_path, incomplete):
        with pytest.raises(WeightsError, match="cannot be loaded as a sentence encoder"):
            EncoderVectors(str(folder)).embed(["Fever."])


def test_weights_that_were_cut_off_are_named(tmp_path: Path, cls_folder: Path) -> None:
    cut = shutil.copytree(cls_folder, tmp_path / "cut")
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(WeightsError, match="cannot be loaded as a sentence encoder"):
        EncoderVectors(str(cut)).embed(["Fever."])
    with pytest.raises(WeightsError, match="cannot be loaded as an encoder"):
        load_encoder(cut)


def test_an_encoder_without_files_of_its_pooling_takes_the_mean(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        if (encoder_folder(MINILM) / name).is_file():
            shutil.copy(encoder_folder(MINILM) / name, tmp_path)
    bare = EncoderVectors(str(tmp_path))
    found = bare.embed(["Platelets fell.", "a " * 510, "a " * 511])
    expected = shared_vectors().embed(["Platelets fell."])
    np.testing.assert_allclose(found.vectors[0], expected.vectors[0], atol=1e-5)
    assert found.cut.tolist() == [False, False, True]
    assert bare.identity.endswith(" mean 512")
    assert capfd.readouterr() == ("", "")


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="no encoder at"):
        load_ranker(f"similarity:{tmp_path}")


def test_a_folder_is_named_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bge").mkdir()
    monkeypatch.chdir(tmp_path)
    assert located("similarity:bge") == f"similarity:{tmp_path / 'bge'}"
    assert located("similarity") == "similarity"


@pytest.mark.parametrize(
    ("name", "logits"),
    [("similarity", False), ("similarity:bge", False), ("bm25", False), ("logistic@12ab", True)],
)
def test_only_trained_rankers_give_logits(name: str, logits: bool) -> None:
    assert gives_logits(name) is logits
