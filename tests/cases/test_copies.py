"""The folder in which a process has copies of what URLs name."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage import copies
from storage.copies import PREFIX, fetch, fetch_by, folder_of, place_of, remove_copies, url_of
from storage.errors import InputError
from storage.files import allow_files, write_atomically
from storage.url_names import name_of, with_urls
from tests.evigraph import ROOT

FETCHES = """\
import os, signal, sys
from pathlib import Path
from storage.copies import fetch, fetch_by, place_of

def copy(url: str, target: Path) -> bool:
    target.parent.mkdir(parents=True)
    target.write_text(url)
    END
    return True

fetch_by(copy)
place = place_of("s3://bucket/notes/cases.jsonl")
fetch(place)
print(place, flush=True)
"""
ENDS = {
    "by itself": "",
    "by a fault": "raise ValueError",
    "by Ctrl-C": "os.kill(os.getpid(), signal.SIGINT)",
    "by SIGTERM while it fetches": "os.kill(os.getpid(), signal.SIGTERM)",
    "by SIGTERM later": "import atexit; atexit.register(os.kill, os.getpid(), signal.SIGTERM)",
    "by SIGHUP": "os.kill(os.getpid(), signal.SIGHUP)",
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    remove_copies()
    fetcher = copies._fetcher
    yield
    remove_copies()
    if fetcher is not None:
        fetch_by(fetcher)


def start(folder: Path, end: str = "", then: str = "") -> subprocess.Popen[str]:
    script = FETCHES.replace("END", end or "pass") + then
    given = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, env=given, stdout=-1, stderr=-1, stdin=-1, text=True
    )


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_when_a_process_ends(end: str, tmp_path: Path) -> None:
    process = start(tmp_path, ENDS[end])
    process.communicate(timeout=60)
    assert (process.returncode == 0) == (end == "by itself")
    assert list(tmp_path.iterdir()) == []


def test_what_a_kill_leaves_is_removed_and_what_is_used_is_not(tmp_path: Path) -> None:
    killed = start(tmp_path, then="os.kill(os.getpid(), signal.SIGKILL)")
    left = Path(killed.communicate(timeout=60)[0].strip())
    assert killed.returncode == -signal.SIGKILL and left.read_text() == "s3://bucket/notes/cases.jsonl"
    (tmp_path / f"{PREFIX}link").symlink_to(ROOT)
    (tmp_path / "others").mkdir()
    running = start(tmp_path, then="sys.stdin.read()")
    assert running.stdout is not None
    used = Path(running.stdout.readline().strip())
    assert used.exists() and not left.exists()
    later = start(tmp_path)
    later.communicate(timeout=60)
    assert later.returncode == 0 and used.exists()
    running.communicate(timeout=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{PREFIX}link", "others"]


def test_the_folder_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        place_of("s3://bucket/cases.jsonl")
    finally:
        os.umask(before)
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/notes/my cases.jsonl",
        "s3://bucket/a#b?c%20d.xml",
        "gs://bucket",
        "abfs://notes@account.dfs.core.windows.net/cases.xml",
        "file:///folder/cases.jsonl",
    ],
)
def test_a_copy_is_called_by_its_url(url: str) -> None:
    place = place_of(url)
    assert url_of(place) == name_of(place) == name_of(place.resolve()) == url
    assert with_urls(f"in {place}: line 2, and {place}/more") == f"in {url}: line 2, and {url}/more"
    assert str(InputError(place, f"not as in {place}")) == f"{url}: not as in {url}"
    assert url_of(Path("/folder/cases.jsonl")) is None and name_of(Path("cases.xml")) == "cases.xml"
    assert folder_of(place) == (place.parent if "cases" in url or ".xml" in url else place)


@pytest.mark.parametrize("url", ["s3://bucket/../cases.xml", "s3://bucket//cases.xml", "s3://", "s3://b/./c"])
def test_a_url_that_would_lead_elsewhere_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="has an empty part"):
        place_of(url)


def test_everything_is_fetched_once_and_what_failed_again() -> None:
    asked = []

    def copy(url: str, target: Path) -> bool:
        asked.append(url)
        if len(asked) == 1:
            raise InputError(url, "the server does not respond")
        if "none" in url:
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(url)
        return True

    fetch_by(copy)
    there, none = place_of("s3://bucket/cases.xml"), place_of("s3://bucket/none.xml")
    with pytest.raises(InputError, match=r"s3://bucket/cases.xml: cannot be looked for as the key: the serv"):
        fetch(there, "the key")
    for _ in range(2):
        fetch(there)
        fetch(none)
    assert asked == ["s3://bucket/cases.xml"] * 2 + ["s3://bucket/none.xml"]
    assert there.exists() and not none.exists()
    fetch(Path("cases.xml"))
    assert len(asked) == 3


def test_a_full_disk_is_named_and_a_thread_may_fetch() -> None:
    def fill(*_: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    fetch_by(fill)
    there = place_of("s3://bucket/cases.xml")
    with pytest.raises(InputError, match=r"s3://bucket/cases\.xml: cannot be copied to .*: No space left"):
        fetch(there)

    def copy(url: str, target: Path) -> bool:
        target.parent.mkdir(parents=True, exist_ok=True)
        return bool(target.write_text(url))

    fetch_by(copy)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(fetch, there).result()
    assert there.read_text() == "s3://bucket/cases.xml"


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ((10, 50), (30, 50)),
        ((10, 20), (20, 20)),
        ((10, resource.RLIM_INFINITY), (30, resource.RLIM_INFINITY)),
        ((30, 50), None),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
    ],
)
def test_as_many_files_are_open_at_once_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: tuple[int, int] | None
) -> None:
    made: list[tuple[int, int]] = []
    monkeypatch.setattr("storage.files.resource.getrlimit", lambda _: limits)
    monkeypatch.setattr("storage.files.resource.setrlimit", lambda _, given: made.append(given))
    allow_files(30)
    assert made == ([] if wanted is None else [wanted])


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none/a: cannot be written: No such file or directory"):
        write_atomically(tmp_path / "none" / "a", [b"x"])
