from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ranking.errors import RankerError
from ranking.examples import Example, split
from ranking.rankers.neural import NeuralRanker
from ranking.training.job import TrainingData, load_data
from ranking.training.loop import SilentWatcher
from ranking.training.train import train
from tests.ranking.readers.files import write_lines
from tests.ranking.training.conftest import Train
from tests.ranking.training.tiny import encoder_on_disk, examples, job


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


def relabelled(number: int, *labels: bool) -> Example:
    return replace(examples()[number], labels=labels)


@pytest.mark.parametrize(
    ("data", "values", "fault"),
    [
        ([replace(one, labels=None) for one in examples()], {}, "none of 10 examples has labels"),
        (examples(1), {}, "cannot hold 30% of the examples out: 1 groups with gold labels are too few"),
        (examples(), {"split": {"held_out": 0.01}}, "one held-out example is too few to tune a cut-off"),
        (
            [relabelled(number, *[number % 2 == 0] * 4) for number in range(10)],
            {"objective": {"objective": "pairwise"}},
            "no training example gives a loss under the objective 'pairwise'",
        ),
        (
            [replace(one, document_id="d") for one in examples()],
            {"noise": {}},
            "noise: e\\d: other sentences than those of e\\d, both of document 'd'",
        ),
        (examples(), {"pretrain": {"data": ["qa"]}}, "none of 1 example for pre-training has evidence"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(
    tiny_train: Train, tmp_path: Path, data: list[Example], values: dict[str, Any], fault: str
) -> None:
    unanswerable = [relabelled(0, *[False] * 4)]
    with pytest.raises(RankerError, match=fault):
        tiny_train(tmp_path / "r", data=TrainingData(data, unanswerable), **values)
    assert not (tmp_path / "r").exists()


def test_limits_beyond_the_encoder_are_refused(
    tiny_train: Train, tmp_path: Path, encoder_folder: str
) -> None:
    with pytest.raises(RankerError, match=r"model: max_query_tokens 5000, .* positions of the encoder"):
        tiny_train(tmp_path / "r", model={"encoder": encoder_folder, "max_query_tokens": 5000})


def test_held_out_examples_need_evidence(tiny_train: Train, tmp_path: Path) -> None:
    held_out = {one.id for one in split(examples(), 0.3, 1).held_out}
    bare = [replace(one, labels=(False,) * 4) if one.id in held_out else one for one in examples()]
    with pytest.raises(RankerError, match="no held-out example has a sentence of evidence"):
        tiny_train(tmp_path / "r", data=TrainingData(bare))


def test_noise_is_in_what_is_learned_from(tiny_train: Train, tmp_path: Path) -> None:
    data = TrainingData([replace(one, query=f"{one.query} lung scan") for one in examples()])
    noisy = tiny_train(tmp_path / "noisy", data=data, noise={"drop": 0.9})
    plain = tiny_train(tmp_path / "plain", data=data)
    assert noisy.weights_sha256 != plain.weights_sha256
    assert noisy.data == plain.data


def test_data_are_read_as_the_job_says(tmp_path: Path, encoder_folder: str) -> None:
    fields = ("id", "query", "sentences", "labels", "document_id", "group")
    lines = [{name: getattr(one, name) for name in fields} for one in examples()]
    path = str(write_lines(tmp_path / "examples.jsonl", *lines))
    plain = job(encoder_folder, pretrain={"data": [path], "max_examples": 3})
    begun = plain.model_copy(update={"data": (path,), "reader": "jsonl", "limit": 8})
    found = load_data(begun)
    assert found.examples == examples(8)
    assert len(found.pretraining) == 10
    pretraining = train(begun, found, tmp_path / "r").pretraining
    assert pretraining is not None and pretraining.examples == 3
    with pytest.raises(RankerError, match="names no data: pass --pretrain PATH"):
        load_data(begun.model_copy(update={"recipe": job(encoder_folder, pretrain={}).recipe}))
    with pytest.raises(RankerError, match="reader 'csv': known are "):
        load_data(begun.model_copy(update={"reader": "csv"}))
