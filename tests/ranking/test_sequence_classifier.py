"""A real transformers cross-encoder, tiny and untrained."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ranking.encoding.device import choose_placement
from ranking.errors import RankerError
from ranking.rankers.load import load_ranker, located
from ranking.rankers.sequence_classifier import SequenceClassifierRanker
from tests.ranking.tiny_classifier import TEXTS, write_classifier
from weights.registry import WeightsError

PASSAGES = [*TEXTS, ""]
QUESTION = "does tea help ?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_classifier(tmp_path_factory.mktemp("cross") / "encoder", ["LABEL_0"])


@pytest.fixture(scope="module")
def ranker(folder: Path) -> SequenceClassifierRanker:
    return SequenceClassifierRanker(folder)


def test_scores_are_the_logits_of_question_and_passage(
    folder: Path, ranker: SequenceClassifierRanker
) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        expected = [
            float(model(**tokenizer([QUESTION], [text], return_tensors="pt")).logits[0, 0])
            for text in PASSAGES
        ]
    assert len({round(score, 4) for score in expected}) == len(PASSAGES)
    tolerance = {"float32": 1e-5, "bfloat16": 1e-2}[choose_placement().precision]
    assert ranker.rank(QUESTION, PASSAGES).scores == pytest.approx(expected, abs=tolerance)


def test_a_passage_scores_alike_whatever_stands_beside_it(ranker: SequenceClassifierRanker) -> None:
    many = [TEXTS[number % 3] for number in range(70)]
    together = ranker.rank(QUESTION, many).scores
    assert together == pytest.approx([together[number % 3] for number in range(70)], abs=1e-5)


def test_threads_get_the_scores_of_their_own_passages(ranker: SequenceClassifierRanker) -> None:
    alone = [ranker.rank(QUESTION, [text]).scores for text in PASSAGES]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: ranker.rank(QUESTION, [text]).scores, PASSAGES * 5))
    assert np.concatenate(found) == pytest.approx(np.concatenate(alone * 5), abs=1e-5)


def test_of_what_is_too_long_the_passage_gives_way(ranker: SequenceClassifierRanker) -> None:
    ranked = ranker.rank(QUESTION, ["tea " * 26, "tea " * 25, "tea"])
    assert (ranked.cut_sentences, ranked.query_cut) == ((0,), False), "25 of 32 tokens are left for it"


def test_a_question_of_a_page_is_cut_and_said(ranker: SequenceClassifierRanker) -> None:
    ranked = ranker.rank("does tea help ? " * 20, ["tea", "tea " * 40])
    assert (ranked.cut_sentences, ranked.query_cut) == ((1,), True)


def test_nothing_to_score_is_no_score(ranker: SequenceClassifierRanker) -> None:
    assert ranker.rank(QUESTION, []).scores.shape == (0,)


def test_it_is_had_by_its_name_and_its_folder_holds_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert located("classifier:encoder") == f"classifier:{folder}"
    assert load_ranker("classifier:encoder").identity.startswith("classifier:encoder@")


def test_a_classifier_with_several_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RankerError, match="it has 3 labels, and a reranker has one; use the folder"):
        load_ranker(f"classifier:{write_classifier(tmp_path / 'nli', ['a', 'b', 'c'])}")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RankerError, match="folder not found"):
        load_ranker(f"classifier:{tmp_path / 'none'}")


def test_a_configuration_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RankerError, match=r"config\.json: it is not JSON"):
        load_ranker(f"classifier:{tmp_path}")


def test_scores_that_are_not_finite_are_told(tmp_path: Path) -> None:
    broken = write_classifier(tmp_path / "model", ["LABEL_0"], [float("nan")])
    with pytest.raises(RankerError, match=r"ranker classifier:model@.* returned NaN or infinity as a score"):
        load_ranker(f"classifier:{broken}").rank(QUESTION, ["tea"])


def test_damaged_weights_are_told_at_the_first_passage(tmp_path: Path) -> None:
    damaged = write_classifier(tmp_path / "model", ["LABEL_0"])
    (damaged / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(WeightsError, match="cannot be loaded as a classifier"):
        load_ranker(f"classifier:{damaged}").rank("?", ["tea"])
