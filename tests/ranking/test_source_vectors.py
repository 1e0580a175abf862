"""A source is encoded once."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ranking.encoding.vectors import Embedded, SourceVectors

SOURCE = ["one", "three", "one"]


class Lengths:
    """A text's vector is its length; counts what it was asked."""

    def __init__(self, identity: str = "lengths@1") -> None:
        self.identity = identity
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.asked += texts
        lengths = np.array([[len(text), 1] for text in texts], dtype=np.float32).reshape(-1, 2)
        return Embedded(lengths, np.array([len(text) > 4 for text in texts], dtype=np.bool_))


def kept_in(folder: Path, encoder: Lengths | None = None) -> SourceVectors:
    vectors = SourceVectors(encoder or Lengths())
    vectors.folder = folder
    return vectors


def test_vectors_are_those_of_the_encoder_and_equal_sentences_are_encoded_once() -> None:
    encoder = Lengths()
    found, expected = SourceVectors(encoder).embed(SOURCE), Lengths().embed(SOURCE)
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    np.testing.assert_array_equal(found.cut, expected.cut)
    assert encoder.asked == ["one", "three"]


def test_a_second_process_encodes_no_sentence_of_the_source(tmp_path: Path) -> None:
    kept_in(tmp_path / "new").embed(SOURCE)
    again = kept_in(tmp_path / "new")
    np.testing.assert_array_equal(again.embed(SOURCE).vectors, Lengths().embed(SOURCE).vectors)
    assert not again.computed


@pytest.mark.parametrize(
    ("identity", "source"), [("other@1", SOURCE), ("lengths@1", ["one", "three"])], ids=["encoder", "source"]
)
def test_another_encoder_or_source_is_encoded_anew(tmp_path: Path, identity: str, source: list[str]) -> None:
    kept_in(tmp_path).embed(SOURCE)
    other = kept_in(tmp_path, Lengths(identity))
    other.embed(source)
    assert other.computed


def test_progress_is_reported_part_by_part() -> None:
    told: list[int] = []
    vectors = SourceVectors(Lengths())
    vectors.report = told.append
    vectors.embed([str(number) for number in range(600)])
    assert told == [256, 512, 600]


def test_files_are_for_their_owner_alone_and_hold_no_text(tmp_path: Path) -> None:
    kept_in(tmp_path).embed(SOURCE)
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"three" not in file.read_bytes()


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert len(kept_in(tmp_path / "file" / "sources").embed(SOURCE).vectors) == 3


@pytest.mark.parametrize(
    "change", [lambda vectors: vectors * np.nan, lambda vectors: vectors[:1], lambda vectors: vectors[:, 0]]
)
def test_stored_vectors_that_cannot_be_are_made_anew(tmp_path: Path, change: Callable[[Any], Any]) -> None:
    expected = kept_in(tmp_path).embed(SOURCE).vectors
    (file,) = tmp_path.iterdir()
    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    with file.open("wb") as written:
        np.savez(written, **{**arrays, "vectors": change(arrays["vectors"])})
    again = kept_in(tmp_path)
    np.testing.assert_array_equal(again.embed(SOURCE).vectors, expected)
    assert again.computed
