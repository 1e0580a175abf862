"""Files with texts of cases: for their owner alone, whatever the umask, and not written through links."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from storage.errors import InputError

VARIABLE = "EVIGRAPH_FILES"
_MASKS = {"owner": 0o077, "group": 0o007, "umask": None}
"""Bits that are taken from folders and files, by value of the variable; `umask` leaves them to the system."""


def files_mask() -> int | None:
    """The bits that no file of ours may have; None where the umask decides.

    Raises:
        InputError: The environment variable has another value.
    """
    wanted = os.environ.get(VARIABLE) or "owner"
    if wanted not in _MASKS:
        raise InputError(VARIABLE, f"no value {wanted!r}", f"Values are: {', '.join(_MASKS)}")
    return _MASKS[wanted]


def close_files() -> None:
    """Let all files that this process makes from now on be for their owner alone."""
    mask = files_mask()
    if mask is not None:
        os.umask(mask)


def private_folder(path: Path) -> None:
    """Make a folder, with those above it, or close one that is there to others.

    Raises:
        OSError: It cannot be made.
    """
    path.mkdir(parents=True, exist_ok=True)
    close_to_others(path)


def close_to_others(path: Path) -> None:
    """Take the rights of others from a folder and the files in it, as far as they are ours."""
    mask = files_mask()
    if mask is None:
        return
    for one in (path, *(entry for entry in path.iterdir() if entry.is_file() and not entry.is_symlink())):
        # Some file systems have no rights, and a file may be another user's.
        with contextlib.suppress(OSError):
            mode = one.stat().st_mode & 0o7777
            if mode & mask:
                one.chmod(mode & ~mask)


def open_here(path: Path, mode: str) -> IO[bytes]:
    """Open a file for writing, unbuffered and never through a link, which could lead out of its folder.

    Raises:
        InputError: It is a link.
        OSError: It cannot be opened.
    """
    return open(path, mode, buffering=0, opener=_open_no_link)


def _open_no_link(path: str, flags: int) -> int:
    mask = files_mask()
    try:
        return os.open(path, flags | os.O_NOFOLLOW, 0o666 & ~(mask or 0))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(path, "is a symbolic link", "Put the file itself in its place") from None
        raise


@contextlib.contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Have an error of writing name the file, which the system does only for errors of opening."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` once it is whole.

    It has no name until then, so a kill leaves nothing of it; on file systems without such files it has one.

    Raises:
        OSError: It cannot be written.
    """
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        unnamed = _unnamed(path.parent)
        with (
            named_in_errors(path),
            open(unnamed, "wb") if unnamed is not None else temporary.open("xb") as file,  # noqa: PTH123
        ):
            yield file
            file.flush()
            if unnamed is not None:
                folder = os.open(path.parent, os.O_RDONLY)
                try:
                    # Only with a folder given is the link to the open file followed.
                    os.link(f"/proc/self/fd/{file.fileno()}", temporary.absolute(), src_dir_fd=folder)
                finally:
                    os.close(folder)
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def replace_file(path: Path, content: Iterable[bytes]) -> None:
    """Replace a file in one step, on the disk for good when this returns.

    Raises:
        OSError: It cannot be written.
    """
    with replacing(path) as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())


def write_private(path: Path, content: bytes) -> None:
    """Replace a file by one that its owner alone may read, whatever the environment says of others.

    Raises:
        OSError: It cannot be written.
    """
    with replacing(path) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def flush_path(path: Path) -> None:
    """Have a file that others have written, or the names in a folder, on the disk for good."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _unnamed(folder: Path) -> int | None:
    """A new file without a name; None where the system has none."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, flag | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL) and folder.is_dir():
            return None
        raise
