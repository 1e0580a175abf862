from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from ranking.errors import RankerError
from ranking.rankers.neural import NeuralRanker
from storage.files import file_sha256
from tests.ranking.training.conftest import Train
from tests.ranking.training.tiny import encoder_on_disk

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


def test_a_folder_without_a_manifest_is_no_ranker(tmp_path: Path) -> None:
    with pytest.raises(RankerError, match=r"it lacks ranker\.json"):
        NeuralRanker.open(tmp_path)


def test_changed_weights_are_refused(copy: Path) -> None:
    path = copy / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(RankerError, match=r"not the weights that ranker\.json is about"):
        NeuralRanker.open(copy)


def test_weights_of_another_backbone_are_refused(copy: Path) -> None:
    path = copy / "weights.safetensors"
    tensors = {name: tensor[..., :8].contiguous() for name, tensor in load_file(path).items()}
    save_file(tensors, path)
    manifest = json.loads((copy / "ranker.json").read_text())
    (copy / "ranker.json").write_text(json.dumps({**manifest, "weights_sha256": file_sha256(path)}))
    with pytest.raises(RankerError, match="of another backbone"):
        NeuralRanker.open(copy)


def test_another_format_is_refused(copy: Path) -> None:
    manifest = json.loads((copy / "ranker.json").read_text())
    (copy / "ranker.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(RankerError, match="written in format 99, this version reads 1"):
        NeuralRanker.open(copy)


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


def test_the_identity_is_name_and_weights(trained: Path) -> None:
    assert NeuralRanker.open(trained).identity == f"tiny@{file_sha256(trained / 'weights.safetensors')[:12]}"
