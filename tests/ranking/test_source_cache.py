from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ranking.models.config import ModelConfig
from ranking.models.fusions import LateSource, MidSource, build_model
from ranking.models.model import EvidenceModel
from ranking.source_cache import SourceCache
from tests.ranking.models.tiny import WORDS, encoder, texts, tokenizer

DOCUMENT = ["fever cough film", "", "oxygen night", "tablet " * 9]
OTHER = ["clot scan", "clinic"]
QUERIES = texts(5)


def model(fusion: str = "mid", seed: int = 1) -> EvidenceModel[Any]:
    loaded = encoder()
    torch.manual_seed(seed)
    return build_model(ModelConfig.model_validate({"fusion": fusion, "context": "lstm"}), loaded).eval()


def cache(of: EvidenceModel[Any], **options: Any) -> SourceCache:
    return SourceCache(of, tokenizer(), 8, **options)


@pytest.mark.parametrize(("fusion", "kind"), [("mid", MidSource), ("late", LateSource)])
def test_a_document_is_encoded_once(fusion: str, kind: type) -> None:
    kept = cache(model(fusion))
    first = kept.encode(DOCUMENT)
    assert kept.encode(DOCUMENT) is first
    assert isinstance(first.source, kind)
    assert (kept.hits, kept.misses) == (1, 1)


def test_cut_sentences_are_named_again() -> None:
    kept = cache(model())
    assert [kept.encode(DOCUMENT).cut for _ in range(2)] == [(3,), (3,)]


def test_sentences_are_not_confused_with_their_concatenation() -> None:
    kept = cache(model("late"))
    assert len(kept.encode(["fever cough"]).source.vectors) == 1
    assert len(kept.encode(["fever", "cough"]).source.vectors) == 2


def test_a_model_in_training_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"call model.eval\(\) first"):
        cache(model().train()).encode(DOCUMENT)


def test_other_weights_find_nothing_old() -> None:
    trained = model("late")
    kept = cache(trained)
    before = kept.encode(DOCUMENT).source.vectors
    with torch.no_grad():
        next(trained.backbone.parameters()).mul_(1.5)
    assert not torch.allclose(kept.encode(DOCUMENT).source.vectors, before)


def test_the_document_used_longest_ago_makes_room() -> None:
    kept = cache(model("late"))
    size = kept.encode(DOCUMENT).source.nbytes
    small = cache(model("late"), memory_bytes=size + 1)
    small.encode(DOCUMENT)
    small.encode(OTHER)
    assert small.held_bytes <= size
    small.encode(DOCUMENT)
    assert small.misses == 3


def test_a_document_beyond_the_memory_is_used_and_not_kept() -> None:
    kept = cache(model(), memory_bytes=1)
    assert kept.encode(DOCUMENT).source.states.isfinite().all()
    assert kept.held_bytes == 0


@pytest.mark.parametrize("fusion", ["mid", "late"])
def test_another_process_finds_it_on_disk(fusion: str, tmp_path: Path) -> None:
    first = cache(model(fusion), folder=tmp_path).encode(DOCUMENT)
    later = cache(model(fusion), folder=tmp_path)
    found = later.encode(DOCUMENT)
    assert (later.hits, later.misses, found.cut) == (1, 0, first.cut)
    with torch.inference_mode():
        assert torch.equal(
            model(fusion).score(found.source, QUERIES), model(fusion).score(first.source, QUERIES)
        )


def test_a_model_with_other_weights_does_not_find_it_on_disk(tmp_path: Path) -> None:
    cache(model(), folder=tmp_path).encode(DOCUMENT)
    other = cache(model(seed=2), folder=tmp_path)
    other.encode(DOCUMENT)
    assert other.misses == 1


@pytest.mark.parametrize("damage", ["cut short", "one bit", "nothing left"])
def test_a_damaged_file_is_encoded_anew(damage: str, tmp_path: Path) -> None:
    cache(model(), folder=tmp_path).encode(DOCUMENT)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    bent = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
    file.write_bytes({"cut short": whole[:-9], "one bit": bent, "nothing left": b""}[damage])
    later = cache(model(), folder=tmp_path)
    later.encode(DOCUMENT)
    assert later.misses == 1
    assert file.read_bytes() == whole


def test_half_precision_is_the_same_from_disk_and_fresh(tmp_path: Path) -> None:
    fresh = cache(model("late"), storage="float16", folder=tmp_path).encode(DOCUMENT).source.vectors
    found = cache(model("late"), storage="float16", folder=tmp_path).encode(DOCUMENT).source.vectors
    exact = cache(model("late")).encode(DOCUMENT).source.vectors
    assert torch.equal(fresh, found)
    assert 0 < (fresh - exact).abs().max() < 2e-3


def test_a_source_made_in_inference_mode_can_be_trained_on() -> None:
    trained = model("late")
    with torch.inference_mode():
        source = cache(trained).encode(DOCUMENT).source
    assert trained.train().score(source, QUERIES).requires_grad


def test_early_fusion_has_nothing_to_keep() -> None:
    kept = cache(model("early"))
    assert kept.encode(DOCUMENT).source[0] == [4 + WORDS.index(word) for word in DOCUMENT[0].split()]
    assert kept.held_bytes == 0
