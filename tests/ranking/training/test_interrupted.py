from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ranking.errors import RankerError
from ranking.rankers.neural import NeuralRanker
from ranking.training.job import TrainingData
from ranking.training.loop import TrainingDiverged, TrainingInterrupted
from ranking.training.state import read_position
from tests.ranking.training.conftest import Train
from tests.ranking.training.tiny import examples


class Killed(BaseException):
    """As if the process had ended there: nothing catches it, nothing is saved."""


def after(steps: int, error: BaseException | None = None) -> Callable[[], bool]:
    asked = iter(range(1, 10_000))

    def stop() -> bool:
        if next(asked) < steps:
            return False
        if error is not None:
            raise error
        return True

    return stop


# Seven documents an epoch: within the first, at its end, within the second.
@pytest.mark.parametrize("steps", [3, 7, 9])
def test_a_resumed_training_ends_with_the_weights_of_an_uninterrupted_one(
    tiny_train: Train, tmp_path: Path, trained: Path, steps: int
) -> None:
    with pytest.raises(TrainingInterrupted, match="evigraph train --resume"):
        tiny_train(tmp_path / "r", stopping=after(steps))
    resumed = tiny_train(tmp_path / "r", resume=True)
    whole = NeuralRanker.open(trained).manifest
    assert resumed.weights_sha256 == whole.weights_sha256
    assert (tmp_path / "r" / "curve.jsonl").read_text() == (trained / "curve.jsonl").read_text()


@pytest.mark.parametrize("steps", [3, 9])
def test_so_does_one_that_was_killed(tiny_train: Train, tmp_path: Path, trained: Path, steps: int) -> None:
    with pytest.raises(Killed):
        tiny_train(tmp_path / "r", stopping=after(steps, Killed()))
    resumed = tiny_train(tmp_path / "r", resume=True)
    assert resumed.weights_sha256 == NeuralRanker.open(trained).manifest.weights_sha256


def test_a_killed_training_goes_on_from_the_last_saved_step(
    tiny_train: Train, tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ranking.training.loop._SAVE_EVERY_S", -1.0)
    with pytest.raises(Killed):
        tiny_train(tmp_path / "r", stopping=after(4, Killed()))
    position = read_position(tmp_path / "r" / "training")
    assert position is not None and (position.epoch, position.step) == (0, 3)
    resumed = tiny_train(tmp_path / "r", resume=True)
    assert resumed.weights_sha256 == NeuralRanker.open(trained).manifest.weights_sha256


# Five steps before the training proper: within them, and after its first epoch.
@pytest.mark.parametrize("steps", [3, 13])
def test_with_pretraining_and_a_fresh_head_as_well(tiny_train: Train, tmp_path: Path, steps: int) -> None:
    values = {"data": TrainingData(examples(), examples(5)), "pretrain": {"data": ["qa"], "head": "fresh"}}
    whole = tiny_train(tmp_path / "whole", **values)
    with pytest.raises(Killed):
        tiny_train(tmp_path / "r", stopping=after(steps, Killed()), **values)
    assert tiny_train(tmp_path / "r", resume=True, **values).weights_sha256 == whole.weights_sha256


def test_an_interrupted_training_is_no_ranker_yet(tiny_train: Train, tmp_path: Path) -> None:
    folder = tmp_path / "my ranker"
    command = re.escape(f"evigraph train --resume '{folder}'")
    with pytest.raises(TrainingInterrupted, match=command):
        tiny_train(folder, stopping=after(9))
    with pytest.raises(RankerError, match=f"its training has not ended: {command}"):
        NeuralRanker.open(folder)


def test_a_finished_training_leaves_nothing_but_the_ranker(trained: Path) -> None:
    names = sorted(path.name for path in trained.iterdir())
    assert names == ["curve.jsonl", "encoder", "ranker.json", "weights.safetensors"]


def test_resume_is_refused_with_another_recipe(tiny_train: Train, tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        tiny_train(tmp_path / "r", stopping=after(2))
    with pytest.raises(RankerError, match="begun with other values of epochs"):
        tiny_train(tmp_path / "r", resume=True, epochs=3)


def test_resume_is_refused_with_other_data(tiny_train: Train, tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        tiny_train(tmp_path / "r", stopping=after(2))
    with pytest.raises(RankerError, match="the data are not those"):
        tiny_train(tmp_path / "r", resume=True, data=TrainingData(examples(9)))


def test_a_damaged_state_is_refused(tiny_train: Train, tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        tiny_train(tmp_path / "r", stopping=after(2))
    state = tmp_path / "r" / "training" / "state.pt"
    state.write_bytes(state.read_bytes()[:100])
    with pytest.raises(RankerError, match="damaged"):
        tiny_train(tmp_path / "r", resume=True)


def test_a_damaged_job_is_refused(tiny_train: Train, tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        tiny_train(tmp_path / "r", stopping=after(2))
    (tmp_path / "r" / "training" / "job.json").write_text("{")
    with pytest.raises(RankerError, match=r"job\.json: damaged \(ValidationError\); train anew elsewhere"):
        tiny_train(tmp_path / "r", resume=True)


def test_nothing_is_resumed_in_a_finished_folder(tiny_train: Train, trained: Path) -> None:
    with pytest.raises(RankerError, match="its training has ended"):
        tiny_train(trained, resume=True)


def test_a_folder_with_something_in_it_is_refused(tiny_train: Train, trained: Path) -> None:
    with pytest.raises(RankerError, match="not empty; name another folder with --out"):
        tiny_train(trained)


def test_a_loss_that_is_not_finite_names_example_and_step(tiny_train: Train, tmp_path: Path) -> None:
    with pytest.raises(TrainingDiverged, match=r"of example 'e\d' is not finite at step 2 \(epoch 1\)"):
        tiny_train(tmp_path / "r", encoder_lr=1e30, head_lr=1e30, warmup=0)


def test_after_it_the_best_epoch_before_is_there(tiny_train: Train, tmp_path: Path, trained: Path) -> None:
    folder = tmp_path / "r"
    with pytest.raises(TrainingInterrupted):
        tiny_train(folder, stopping=after(9))
    state = torch.load(folder / "training" / "state.pt")
    state["model"] = {name: tensor * float("nan") for name, tensor in state["model"].items()}
    torch.save(state, folder / "training" / "state.pt")
    with pytest.raises(TrainingDiverged, match="The ranker of epoch 1 is in"):
        tiny_train(folder, resume=True)
    assert NeuralRanker.open(folder).rank("lung", ["lung"]).scores.shape == (1,)
