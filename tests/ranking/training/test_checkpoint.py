from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ranking.errors import RankerError
from ranking.rankers.load import load_ranker
from ranking.rankers.neural import NeuralRanker
from storage.files import file_sha256
from tests.ranking.training.conftest import Train
from tests.ranking.training.tiny import encoder_on_disk

Change = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
SENTENCES = ["fever night", "lung lung", "", "scan"]


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def test_moved_without_its_encoder_it_gives_the_same_scores(tiny_train: Train, tmp_path: Path) -> None:
    encoder = encoder_on_disk(tmp_path / "encoder")
    tiny_train(tmp_path / "r", model={"encoder": encoder, "max_query_tokens": 8, "max_sentence_tokens": 8})
    before = NeuralRanker.open(tmp_path / "r").rank("lung", SENTENCES)
    shutil.rmtree(encoder)
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.move(tmp_path / "r", tmp_path / "elsewhere" / "s")
    after = NeuralRanker.open(Path(moved)).rank("lung", SENTENCES)
    np.testing.assert_array_equal(before.scores, after.scores)


@pytest.mark.parametrize("fusion", ["mid", "late"])
def test_every_fusion_type_trains_and_reopens(
    tiny_train: Train, tmp_path: Path, encoder_folder: str, fusion: str
) -> None:
    model = {"fusion": fusion, "context": "lstm", "encoder": encoder_folder, "pooling": "mean"}
    limits = {"max_query_tokens": 8, "max_sentence_tokens": 8}
    manifest = tiny_train(tmp_path / "r", epochs=1, model={**model, **limits})
    ranker = NeuralRanker.open(tmp_path / "r")
    first, from_cache = (ranker.rank("lung", SENTENCES).scores for _ in range(2))
    assert first.shape == (4,)
    np.testing.assert_allclose(first, from_cache, atol=1e-5)
    assert ranker.identity.endswith(manifest.weights_sha256[:12])


def rewritten(trained: Path, folder: Path, **changes: Any) -> Path:
    """A copy of a ranker with other values in its manifest."""
    shutil.copytree(trained, folder)
    values = json.loads((folder / "ranker.json").read_text())
    values["recipe"]["model"] |= changes.pop("model", {})
    (folder / "ranker.json").write_text(json.dumps({**values, **changes}))
    return folder


@pytest.mark.parametrize(
    ("changes", "field"), [({"stack": {"weights": {}}}, "stack"), ({"model": {"fusion": "window"}}, "fusion")]
)
def test_a_ranker_of_an_unknown_kind_is_refused(
    trained: Path, tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(RankerError, match=f"ranker.json: .*{field}"):
        NeuralRanker.open(rewritten(trained, tmp_path / "other", **changes))


def test_no_path_is_in_the_manifest(trained: Path, encoder_folder: str) -> None:
    assert str(Path(encoder_folder).parent) not in (trained / "ranker.json").read_text()


def test_the_figures_are_those_of_the_reopened_ranker(trained: Path) -> None:
    manifest = NeuralRanker.open(trained).manifest
    assert manifest.split.examples == 3
    assert manifest.cutoff == manifest.held_out.cutoff
    assert set(manifest.held_out.tuned) == {"top_k", "threshold", "gap", "adaptive"}


@pytest.mark.parametrize("name", ["weights.safetensors", "encoder/config.json"])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(RankerError, match=f"{name} is missing"):
        NeuralRanker.open(copy)


def test_a_tokenizer_without_a_vocabulary_is_refused(copy: Path) -> None:
    for path in (copy / "encoder").glob("tokenizer*"):
        path.unlink()
    with pytest.raises(
        RankerError, match=r"copy: encoder has no vocabulary \(.*tokenizer\.json.*\); copy the"
    ):
        NeuralRanker.open(copy)


def test_a_folder_without_a_manifest_is_no_ranker(tmp_path: Path) -> None:
    with pytest.raises(RankerError, match=r"it lacks ranker\.json"):
        NeuralRanker.open(tmp_path)
    with pytest.raises(RankerError, match="gone: no such folder"):
        NeuralRanker.open(tmp_path / "gone")


def test_changed_weights_are_refused(copy: Path) -> None:
    path = copy / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(RankerError, match=r"not the weights that ranker\.json is about"):
        NeuralRanker.open(copy)


def change_manifest(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "ranker.json").read_text())
    (folder / "ranker.json").write_text(json.dumps({**manifest, **changes}))


def change_weights(folder: Path, change: Change) -> None:
    path = folder / "weights.safetensors"
    save_file(change(load_file(path)), path)
    change_manifest(folder, weights_sha256=file_sha256(path))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda all_: {name: one[..., :8].contiguous() for name, one in all_.items()}, "of another backbone"),
        (lambda all_: dict(list(all_.items())[1:]), "it has no '.*', so it is of another model or backbone"),
        (lambda all_: {**all_, "x": torch.zeros(1)}, "the model has no 'x', so the weights are of another"),
    ],
)
def test_weights_of_another_model_are_refused(copy: Path, change: Change, fault: str) -> None:
    change_weights(copy, change)
    with pytest.raises(RankerError, match=fault):
        NeuralRanker.open(copy)


def test_weights_that_are_none_are_refused(copy: Path) -> None:
    (copy / "weights.safetensors").write_bytes(b"none")
    change_manifest(copy, weights_sha256=file_sha256(copy / "weights.safetensors"))
    with pytest.raises(RankerError, match=r"weights\.safetensors: cannot be read as weights"):
        NeuralRanker.open(copy)


def test_weights_that_give_no_finite_score_are_told(copy: Path) -> None:
    change_weights(copy, lambda all_: {name: one * float("nan") for name, one in all_.items()})
    with pytest.raises(RankerError, match=r"tiny@.* gives scores that are not finite: train it anew"):
        NeuralRanker.open(copy).rank("lung", SENTENCES)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"format": 99}, "written in format 99, this version reads 1"),
        ({"kind": "other"}, "it describes no neural ranker"),
        ({"recipe": 3}, "recipe"),
    ],
)
def test_another_manifest_is_refused(copy: Path, changes: dict[str, Any], fault: str) -> None:
    change_manifest(copy, **changes)
    with pytest.raises(RankerError, match=fault):
        NeuralRanker.open(copy)


def test_limits_beyond_the_encoder_are_refused(trained: Path, tmp_path: Path) -> None:
    wide = rewritten(trained, tmp_path / "wide", model={"max_query_tokens": 5000})
    with pytest.raises(RankerError, match=r"wide: max_query_tokens 5000, .* positions of the encoder"):
        NeuralRanker.open(wide)


def test_half_a_manifest_is_refused(copy: Path) -> None:
    content = (copy / "ranker.json").read_text()
    (copy / "ranker.json").write_text(content[: len(content) // 2])
    with pytest.raises(RankerError, match=r"ranker\.json: cannot be read"):
        NeuralRanker.open(copy)


def test_many_queries_score_as_one_by_one(trained: Path) -> None:
    ranker = NeuralRanker.open(trained)
    queries = ["lung", "fever cough", ""]
    for query, ranked in zip(queries, ranker.rank_many(queries, SENTENCES), strict=True):
        np.testing.assert_allclose(ranked.scores, ranker.rank(query, SENTENCES).scores, atol=1e-5)


def test_cut_sentences_and_queries_are_named(trained: Path) -> None:
    ranked = NeuralRanker.open(trained).rank("lung " * 9, ["scan", "night " * 9])
    assert ranked.cut_sentences == (1,)
    assert ranked.query_cut


def test_nothing_to_rank_gives_nothing(trained: Path) -> None:
    ranker = NeuralRanker.open(trained)
    assert [ranked.scores.size for ranked in ranker.rank_many(["lung", "scan"], [])] == [0, 0]
    assert ranker.rank_many([], SENTENCES) == []


def test_the_identity_is_name_and_weights(trained: Path) -> None:
    assert load_ranker(str(trained)).identity == f"tiny@{file_sha256(trained / 'weights.safetensors')[:12]}"
