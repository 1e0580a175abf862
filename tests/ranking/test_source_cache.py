"""Entries are computed once, for those that share all that shapes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ranking.encoding.source_cache import Arrays, SourceCache


class Counting:
    """Numbers of a key; counts how often they were computed."""

    def __init__(self, folder: Path | None = None, memory_bytes: int = 1000) -> None:
        self.computed: list[str] = []
        self.cache: SourceCache[list[float]] = SourceCache(
            lambda entry: {"values": np.array(entry)}, _unpacked, memory_bytes=memory_bytes
        )
        self.cache.folder = folder

    def get(self, *key: str) -> list[float]:
        return self.cache.get(key, lambda: self._compute(key))

    def _compute(self, key: tuple[str, ...]) -> list[float]:
        self.computed.append("+".join(key))
        return [float(len(part)) for part in key]


def _unpacked(arrays: Arrays) -> list[float]:
    return [float(value) for value in arrays["values"]]


def test_an_entry_is_computed_once() -> None:
    kept = Counting()
    assert kept.get("a", "bc") is kept.get("a", "bc")
    assert kept.computed == ["a+bc"]


def test_sentences_are_not_confused_with_their_concatenation() -> None:
    kept = Counting()
    assert (kept.get("a b"), kept.get("a", "b")) == ([3.0], [1.0, 1.0])


def test_the_entry_used_longest_ago_makes_room() -> None:
    kept = Counting(memory_bytes=16)
    for key in ("a", "b", "a", "c", "a", "b"):
        kept.get(key)
    assert kept.computed == ["a", "b", "c", "b"]


def test_the_last_entry_is_kept_however_large_it_is() -> None:
    kept = Counting(memory_bytes=1)
    kept.get("a", "b")
    kept.get("a", "b")
    assert kept.computed == ["a+b"]


def test_another_process_finds_it_on_disk(tmp_path: Path) -> None:
    Counting(tmp_path / "new").get("a", "bc")
    later = Counting(tmp_path / "new")
    assert later.get("a", "bc") == [1.0, 2.0]
    assert later.computed == []


@pytest.mark.parametrize("damage", ["cut short", "one bit", "nothing left", "of something else"])
def test_a_damaged_file_is_computed_anew(damage: str, tmp_path: Path) -> None:
    Counting(tmp_path).get("a", "bc")
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    place = whole.index(np.float64(2.0).tobytes())
    bent = whole[:place] + b"\x01" + whole[place + 1 :]
    file.write_bytes({"cut short": whole[:-9], "one bit": bent}.get(damage, b""))
    if damage == "of something else":
        np.savez(file, other=np.zeros(1))
    later = Counting(tmp_path)
    assert later.get("a", "bc") == [1.0, 2.0]
    assert later.computed == ["a+bc"]
    assert file.read_bytes() == whole
