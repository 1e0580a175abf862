"""Versions of the prompts: packaged ones, and user folders that override some prompts of another version."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import yaml

from storage import unique_yaml

DEFAULT = "default"
"""The packaged version, which has every prompt."""

_BASE = "base.yaml"
_MAX_BYTES = 1 << 20
"""Of a file; YAML of 10 MB takes a minute to read."""


class PromptError(Exception):
    """A prompt file or a prompt's variables are wrong."""


@dataclass(frozen=True, slots=True)
class PromptSource:
    """The file of a prompt, and the version that contains it."""

    version: str
    file: Traversable


def packaged_versions() -> list[str]:
    """Return the names of the packaged versions, `default` first."""
    entries = resources.files("prompts").iterdir()
    names = sorted(entry.name for entry in entries if entry.is_dir() and any(_prompt_files(entry)))
    return sorted(names, key=lambda name: name != DEFAULT)


def located(version: str) -> str:
    """Return a packaged name as it is, and a folder by its absolute path, which holds from any folder."""
    folder = Path(version).expanduser()
    return str(folder.resolve()) if version not in packaged_versions() and folder.is_dir() else version


def own_prompts(version: str) -> list[str]:
    """Return the names of the prompts that a version does not take from its base, sorted.

    Raises:
        PromptError: The version is unknown.
    """
    return [file.name.removesuffix(".yaml") for file in _prompt_files(_folder(version))]


def base_of(version: str) -> str | None:
    """Return the version from which another takes the prompts that it lacks; None for the packaged default.

    Raises:
        PromptError: The version is unknown, or its `base.yaml` is wrong.
    """
    if version == DEFAULT:
        return None
    source = _folder(version) / _BASE
    if not source.is_file():
        return DEFAULT
    values = read_yaml(source)[1]
    base = values.get("base") if isinstance(values, dict) and len(values) == 1 else None
    if not isinstance(base, str):
        raise PromptError(f"prompts {source}: must be one line, such as 'base: {DEFAULT}'")
    # A relative folder is one next to the file that names it.
    folder = Path(str(source)).parent / Path(base).expanduser()
    return base if base in packaged_versions() else str(folder.resolve())


def find_sources(version: str, further: Collection[str] = ()) -> dict[str, PromptSource]:
    """Find the file of every prompt of a version: its own file, or else its base's.

    Args:
        version: A packaged version by its name, or a folder.
        further: Names of prompts that a folder may have besides those of the packaged default.

    Raises:
        PromptError: The version is unknown, a file is not a prompt, or a version is its own base.
    """
    known = {*own_prompts(DEFAULT), *further}
    found: dict[str, PromptSource] = {}
    seen: list[str] = []
    one: str | None = version
    while one is not None:
        if one in seen:
            raise PromptError(f"prompts {version!r}: the bases run in a circle: {' -> '.join((*seen, one))}")
        seen.append(one)
        files = list(_prompt_files(_folder(one)))
        if not files and not (_folder(one) / _BASE).is_file():
            raise PromptError(f"prompts {one!r}: the folder has no prompt and no {_BASE}")
        for file in files:
            name = file.name.removesuffix(".yaml")
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}.yaml?" if near else "see evigraph prompts list"
                raise PromptError(f"prompts {one!r}: {file.name} is not the file of a prompt; {hint}")
            found.setdefault(name, PromptSource(one, file))
        one = base_of(one)
    return found


def copy_prompts(version: str, names: Collection[str], folder: Path) -> None:
    """Copy prompts of a version to a new folder that has the version as its base.

    Raises:
        PromptError: The version or prompt is unknown, or the folder has one of the files.
        OSError: The folder cannot be written.
    """
    sources = find_sources(version)
    files = {f"{name}.yaml": demand_prompt(sources, name).file.read_bytes() for name in names}
    files[_BASE] = f"base: {located(version)}\n".encode()
    if taken := [name for name in files if (folder / name).exists()]:
        raise PromptError(f"{folder / taken[0]} exists; give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def demand_prompt(sources: dict[str, PromptSource], name: str) -> PromptSource:
    """Return the source of a prompt.

    Raises:
        PromptError: The prompt is unknown.
    """
    if name not in sources:
        raise unknown_prompt(name, sources)
    return sources[name]


def unknown_prompt(name: str, known: Collection[str]) -> PromptError:
    """Error for an unknown prompt name."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
    return PromptError(f"no prompt {name!r}; {hint}")


def read_yaml(source: Traversable) -> tuple[bytes, object]:
    """Read the bytes and the value of a YAML file in which no mapping has a key twice.

    Raises:
        PromptError: It is missing, too long or wrong.
    """
    try:
        with source.open("rb") as file:
            content: bytes = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise PromptError(f"prompt {source}: is longer than {_MAX_BYTES >> 20} MB")
        return content, unique_yaml.loads(content, aliases=False)
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as error:
        raise PromptError(f"prompt {source}: {' '.join(str(error).split())}") from None


def _folder(version: str) -> Traversable:
    known = packaged_versions()
    folder: Traversable = resources.files("prompts") / version if version in known else Path(version)
    if not folder.is_dir():
        raise PromptError(f"no prompts {version!r}: there are {', '.join(known)}, or give a folder")
    return folder


def _prompt_files(folder: Traversable) -> Iterator[Traversable]:
    # `.yml` is refused as a prompt that nobody knows, rather than silently left out.
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith((".yaml", ".yml")) and entry.name != _BASE:
            yield entry
