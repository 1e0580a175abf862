import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.weights.conftest import NAME, Seen, Shop
from tests.weights.tiny_gguf import write_tiny_gguf
from weights import pull as pull_module
from weights.pull import pull, resolve
from weights.registry import WeightsError, is_ready, model_dir


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The converted files, with a small file as the result."""
    files: list[Path] = []

    def convert(file: Path, target: Path, **options: object) -> None:
        files.append(file)
        target.mkdir()
        (target / "config.json").write_text("{}", encoding="utf-8")

    monkeypatch.setattr(pull_module, "convert_gguf", convert)
    return files


@pytest.mark.usefixtures("quick")
def test_a_pull_ends_with_a_model_and_leaves_nothing_else(shop: Shop, cache: Path, seen: Seen) -> None:
    folder = pull(NAME, seen)
    assert folder == model_dir(NAME) == resolve(NAME)
    assert is_ready(NAME)
    assert not list((cache / "downloads").iterdir())
    assert sorted(path.name for path in folder.parent.iterdir()) == [".tiny-1.0.lock", "tiny-1.0"]
    assert "licence CC0-1.0" in seen.lines[0] and "3 packages" in seen.lines[0]
    assert any(shop.model.sha256 in line for line in seen.lines)
    assert seen.tasks["converting tiny.gguf"][-1] > 0.9 * shop.model.size - 10_000
    generation = json.loads((folder / "generation_config.json").read_text("utf-8"))
    assert len(generation["eos_token_id"]) == 2


def test_a_file_of_the_user_is_taken_as_it_is(
    shop: Shop, cache: Path, tmp_path: Path, seen: Seen, converted: list[Path]
) -> None:
    file = tmp_path / "tiny.gguf"
    pull(NAME, seen, file=file)
    assert converted == [file] and file.is_file()
    assert not (cache / "downloads").exists()


@pytest.mark.usefixtures("quick")
def test_a_conversion_that_fails_keeps_the_download(
    shop: Shop, cache: Path, seen: Seen, converted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, target: Path, **options: object) -> None:
        target.mkdir()
        (target / "model.safetensors").write_bytes(b"half")
        raise RuntimeError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr(pull_module, "convert_gguf", full)
        with pytest.raises(WeightsError, match=r"is full .*downloads are kept"):
            pull(NAME, seen)
    assert [path.name for path in model_dir(NAME).parent.iterdir()] == [".tiny-1.0.lock"]
    for number in shop.parts:
        shop.withdraw(number)
    pull(NAME, seen)
    assert [file.name for file in converted] == ["tiny.gguf"]


def test_a_second_pull_waits_for_the_first(shop: Shop, tmp_path: Path, converted: list[Path]) -> None:
    first, second = Seen(), Seen()
    begun, waits, ended = threading.Event(), threading.Event(), threading.Event()
    overtaken: list[bool] = []

    def hold(task: str) -> None:
        begun.set()
        assert waits.wait(60)
        overtaken.append(ended.wait(0.5))

    first.on_update = hold
    second.on_notify = lambda text: waits.set() if "waiting" in text else None
    one = threading.Thread(target=pull, args=(NAME, first), kwargs={"file": tmp_path / "tiny.gguf"})
    one.start()
    assert begun.wait(60)
    pull(NAME, second, file=tmp_path / "tiny.gguf")
    ended.set()
    one.join(60)
    assert len(converted) == 1 and overtaken == [False]
    assert second.lines[0].startswith("another process") and "in place" in second.lines[1]


def test_a_pull_that_is_killed_goes_on_where_it_ended(shop: Shop, cache: Path, seen: Seen) -> None:
    # The second piece never comes, so that the process is killed with the first one kept.
    code = """
import os, signal, sys
from types import MappingProxyType
from weights import download, pull, registry
run = download._run
def stop_at_second(command, *rest):
    if "part2" in command[-1]:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(command, *rest)
download._run = stop_at_second
import pickle
models = MappingProxyType({"tiny": pickle.loads(bytes.fromhex(sys.argv[1]))})
registry.REGISTRY = pull.REGISTRY = models
pull.pull("tiny")
"""
    import pickle

    pickled = pickle.dumps(shop.model).hex()
    ended = subprocess.run([sys.executable, "-c", code, pickled], capture_output=True, check=False)
    assert ended.returncode == -9, ended.stderr
    downloads = cache / "downloads" / "tiny-1.0"
    assert any(path.name.startswith(".fetch-") for path in downloads.iterdir())
    shop.withdraw(1)
    assert pull(NAME, seen) == model_dir(NAME)


def test_a_gguf_file_is_converted_once_whatever_it_is_called(
    cache: Path, tmp_path: Path, converted: list[Path]
) -> None:
    file = write_tiny_gguf(tmp_path / "mine.gguf")
    folder = resolve(str(file))
    assert folder.parent == cache / "models" and folder.name.startswith("gguf-")
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(file.read_bytes())
    assert resolve(str(copy)) == resolve(str(file)) == folder
    other = write_tiny_gguf(tmp_path / "other.gguf", output="own")
    assert resolve(str(other)) != folder
    assert converted == [file, other]


def test_a_gguf_file_of_a_registered_model_is_that_model(
    shop: Shop, tmp_path: Path, converted: list[Path]
) -> None:
    assert resolve(str(tmp_path / "tiny.gguf")) == model_dir(NAME)
    assert converted == [tmp_path / "tiny.gguf"]


def test_a_gguf_file_that_changes_is_converted_again(
    cache: Path, tmp_path: Path, converted: list[Path]
) -> None:
    file = write_tiny_gguf(tmp_path / "mine.gguf")
    before = resolve(str(file))
    write_tiny_gguf(file, output="own")
    assert resolve(str(file)) != before


def test_a_gguf_file_that_cannot_run_is_refused_before_its_conversion(
    cache: Path, tmp_path: Path, converted: list[Path]
) -> None:
    with pytest.raises(WeightsError, match="architecture 'gemma2'"):
        resolve(str(write_tiny_gguf(tmp_path / "mine.gguf", architecture="gemma2")))
    with pytest.raises(WeightsError, match=r"'.*none\.gguf' is not there"):
        resolve(str(tmp_path / "none.gguf"))
    assert converted == []
