"""A real transformers classifier, tiny and untrained: what it says is led by its bias."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ranking.errors import RankerError
from ranking.rankers.entailment import EntailmentReader, InputForm, label_order
from tests.ranking.tiny_classifier import TEXTS, write_classifier
from weights.registry import WeightsError

FORMS: tuple[InputForm, ...] = ("clean", "released")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ["CONTRADICTION", "Entailment", "neutral"]
    return write_classifier(tmp_path_factory.mktemp("nli") / "model", names, [-5.0, 5.0, 0.0])


@pytest.fixture(scope="module")
def reader(folder: Path) -> EntailmentReader:
    return EntailmentReader(folder)


def test_labels_are_read_from_the_configuration_in_any_order(reader: EntailmentReader) -> None:
    verdicts, _ = reader.judge("does tea help ?", TEXTS)
    assert verdicts.shape == (3, 3)
    assert verdicts.sum(axis=1) == pytest.approx(1)
    assert (np.diff(verdicts, axis=1) < 0).all(), "entailment first, contradiction last"


@pytest.mark.parametrize(
    ("id2label", "order"),
    [
        ({"0": "entailment", "1": "neutral", "2": "contradiction"}, (0, 1, 2)),
        ({0: "contradiction", 1: "entailment", 2: "neutral"}, (1, 2, 0)),
    ],
)
def test_the_order_is_that_of_supports_neutral_refutes(
    id2label: dict[object, str], order: tuple[int, int, int]
) -> None:
    assert label_order(id2label, "m") == order


@pytest.mark.parametrize(
    "id2label",
    [
        {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
        {"0": "entailment", "1": "not_entailment"},
        {"0": "entailment", "1": "neutral", "2": "contradiction", "3": "neutral"},
        {},
    ],
)
def test_labels_of_other_names_are_refused(id2label: dict[str, str]) -> None:
    with pytest.raises(RankerError, match="not entailment, neutral, contradiction; use a classifier"):
        label_order(id2label, "m")


def test_a_text_is_judged_alike_alone_and_in_a_batch(reader: EntailmentReader) -> None:
    together, _ = reader.judge("does tea help ?", TEXTS)
    alone = np.vstack([reader.judge("does tea help ?", [text]).verdicts for text in TEXTS])
    assert together == pytest.approx(alone, abs=1e-5)


def test_texts_beyond_the_limit_are_counted(reader: EntailmentReader) -> None:
    _, cut = reader.judge("does tea help ?", ["tea " * 27, "tea " * 24])
    assert cut.tolist() == [True, False], "8 of 32 tokens are the question and what parts the two"


@pytest.mark.parametrize("form", ["clean", "released"])
def test_a_form_puts_the_two_texts_together_as_it_says(folder: Path, form: InputForm) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    given = {"clean": ("it did help", "does tea ?"), "released": ("does tea ? [SEP] it did help",)}
    with torch.inference_mode():
        logits = model(**tokenizer(*given[form], return_tensors="pt")).logits[0, [1, 2, 0]]
    (found,) = EntailmentReader(folder, form).judge("does tea ?", ["it did help"]).verdicts
    assert found == pytest.approx(torch.softmax(logits, dim=-1).numpy(), abs=1e-6)


def test_the_identity_is_of_the_weights_and_the_form(folder: Path) -> None:
    clean, released = (EntailmentReader(folder, form).identity for form in FORMS)
    assert clean.startswith("model@") and clean.endswith("/clean")
    assert released == clean.replace("/clean", "/released")


def test_half_a_surrogate_pair_is_no_reason_to_fail(reader: EntailmentReader) -> None:
    assert reader.judge("does \ud800 help ?", ["tea \udfff"]).verdicts.shape == (1, 3)


def test_a_folder_that_is_not_there_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RankerError, match=r"folder not found; use llm, or the folder of"):
        EntailmentReader(tmp_path / "none")


def test_a_folder_without_weights_is_told_when_it_is_read(tmp_path: Path) -> None:
    labels = {"id2label": {"0": "entailment", "1": "neutral", "2": "contradiction"}}
    (tmp_path / "config.json").write_text(json.dumps({**labels, "model_type": "bert"}))
    with pytest.raises(WeightsError, match="cannot be loaded as a classifier"):
        EntailmentReader(tmp_path).judge("q", ["t"])
