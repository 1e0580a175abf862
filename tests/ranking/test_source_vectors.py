"""A source is encoded once."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ranking.encoding.source_vectors import SourceVectors
from ranking.encoding.vectors import Embedded

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


def test_vectors_are_those_of_the_encoder(tmp_path: Path) -> None:
    found = SourceVectors(Lengths(), SOURCE, tmp_path).embed(["a query", *SOURCE])
    expected = Lengths().embed(["a query", *SOURCE])
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    np.testing.assert_array_equal(found.cut, expected.cut)


def test_a_second_query_encodes_the_query_alone() -> None:
    encoder = Lengths()
    vectors = SourceVectors(encoder, SOURCE, None)
    vectors.embed(["first", *SOURCE])
    encoder.asked.clear()
    vectors.embed(["second", *SOURCE])
    assert encoder.asked == ["second"]


def test_a_second_process_encodes_no_sentence_of_the_source(tmp_path: Path) -> None:
    SourceVectors(Lengths(), SOURCE, tmp_path / "new").embed(SOURCE)
    encoder = Lengths()
    again = SourceVectors(encoder, SOURCE, tmp_path / "new")
    found = again.embed(["query", *SOURCE])
    assert encoder.asked == ["query"]
    assert not again.encoded
    np.testing.assert_array_equal(found.vectors, Lengths().embed(["query", *SOURCE]).vectors)


@pytest.mark.parametrize(
    ("identity", "source"), [("other@1", SOURCE), ("lengths@1", ["one", "three"])], ids=["encoder", "source"]
)
def test_another_encoder_or_source_is_encoded_anew(tmp_path: Path, identity: str, source: list[str]) -> None:
    SourceVectors(Lengths(), SOURCE, tmp_path).embed(SOURCE)
    other = SourceVectors(Lengths(identity), source, tmp_path)
    other.embed(source)
    assert other.encoded


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    SourceVectors(Lengths(), SOURCE, tmp_path).embed(SOURCE)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:60])
    again = SourceVectors(Lengths(), SOURCE, tmp_path)
    np.testing.assert_array_equal(again.embed(SOURCE).vectors, Lengths().embed(SOURCE).vectors)
    assert again.encoded
    third = SourceVectors(Lengths(), SOURCE, tmp_path)
    third.embed(SOURCE)
    assert not third.encoded


def test_files_are_for_their_owner_alone_and_hold_no_text(tmp_path: Path) -> None:
    SourceVectors(Lengths(), SOURCE, tmp_path).embed(SOURCE)
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"three" not in file.read_bytes()


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    vectors = SourceVectors(Lengths(), SOURCE, tmp_path / "file" / "sources")
    assert len(vectors.embed(SOURCE).vectors) == 3
