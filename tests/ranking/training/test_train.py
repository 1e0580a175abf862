from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ranking.errors import RankerError
from ranking.rankers.neural import NeuralRanker
from ranking.training.job import TrainingData
from ranking.training.loop import SilentWatcher
from tests.ranking.training.conftest import Train
from tests.ranking.training.tiny import encoder_on_disk, examples


class Notices(SilentWatcher):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def notify(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.parametrize("objective", ["pointwise", "pairwise", "listwise"])
def test_a_case_is_learned_by_heart(tiny_train: Train, tmp_path: Path, objective: str) -> None:
    encoder = encoder_on_disk(tmp_path / "encoder", dropout=0)
    tiny_train(
        tmp_path / "r",
        # Two of the three are held out.
        data=TrainingData(examples(3)),
        split={"held_out": 0.6, "seed": 1},
        objective={"objective": objective},
        model={"encoder": encoder, "max_query_tokens": 8, "max_sentence_tokens": 8, "dropout": 0},
        epochs=30,
        encoder_lr=3e-3,
        head_lr=1e-2,
    )
    points = [json.loads(line) for line in (tmp_path / "r" / "curve.jsonl").read_text().splitlines()]
    losses = [point["loss"] for point in points if "loss" in point]
    assert len(losses) == 30
    assert losses[-1] < 0.2 * losses[0]


def test_the_same_job_gives_the_same_weights(tiny_train: Train, tmp_path: Path, trained: Path) -> None:
    again = tiny_train(tmp_path / "r")
    assert again.weights_sha256 == NeuralRanker.open(trained).manifest.weights_sha256


def test_the_order_of_the_examples_has_no_influence(tiny_train: Train, tmp_path: Path, trained: Path) -> None:
    again = tiny_train(tmp_path / "r", data=TrainingData(examples()[::-1]))
    assert again.weights_sha256 == NeuralRanker.open(trained).manifest.weights_sha256


def test_another_seed_gives_other_weights(tiny_train: Train, tmp_path: Path, trained: Path) -> None:
    other = tiny_train(tmp_path / "r", seed=7)
    assert other.weights_sha256 != NeuralRanker.open(trained).manifest.weights_sha256


def test_training_ends_when_patience_is_over(tiny_train: Train, tmp_path: Path) -> None:
    notices = Notices()
    # Rates that change nothing: no epoch is better than the first.
    tiny_train(tmp_path / "r", epochs=9, patience=2, encoder_lr=1e-30, head_lr=1e-30, watcher=notices)
    assert [line for line in notices.lines if line.startswith("epoch 3")]
    assert notices.lines[-1] == "no epoch since 1 was better: training ends here"


def test_examples_that_give_no_loss_are_left_out_and_counted(tiny_train: Train, tmp_path: Path) -> None:
    empty = replace(examples(1)[0], id="none", labels=(False,) * 4, group="g9", document_id="none")
    manifest = tiny_train(
        tmp_path / "r", data=TrainingData([*examples(8), empty]), objective={"objective": "listwise"}
    )
    held_out = manifest.split.examples
    assert manifest.data.no_loss + manifest.data.examples + held_out == 9
    assert manifest.data.no_loss == 1


def test_unlabelled_examples_are_left_out_and_counted(tiny_train: Train, tmp_path: Path) -> None:
    unlabelled = replace(examples(1)[0], id="none", labels=None)
    manifest = tiny_train(tmp_path / "r", data=TrainingData([*examples(), unlabelled]))
    assert manifest.data.unlabelled == 1


def test_sentences_over_the_limit_are_counted_and_reported(tiny_train: Train, tmp_path: Path) -> None:
    long = [replace(one, sentences=(*one.sentences[:3], "lung " * 20)) for one in examples()]
    notices = Notices()
    manifest = tiny_train(tmp_path / "r", data=TrainingData(long), watcher=notices)
    assert manifest.data.cut_sentences == manifest.data.documents
    assert f"{manifest.data.documents} sentences over the limit" in notices.lines[0]


def test_pretraining_comes_first_and_counts(tiny_train: Train, tmp_path: Path, trained: Path) -> None:
    questions = [replace(one, id=f"q{one.id}") for one in examples(6)]
    manifest = tiny_train(
        tmp_path / "r", data=TrainingData(examples(), questions), pretrain={"data": ["qa"], "head": "fresh"}
    )
    assert manifest.pretraining is not None
    assert manifest.pretraining.examples == 6
    assert manifest.weights_sha256 != NeuralRanker.open(trained).manifest.weights_sha256


def test_without_evidence_there_is_nothing_to_learn(tiny_train: Train, tmp_path: Path) -> None:
    empty = [replace(one, labels=(False,) * 4) for one in examples()]
    with pytest.raises(RankerError, match="no positive sentence among"):
        tiny_train(tmp_path / "r", data=TrainingData(empty))
    assert not (tmp_path / "r").exists()
