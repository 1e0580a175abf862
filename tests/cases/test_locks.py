"""One writer, whatever `flock` does."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.disks import Disk, disk_of, find_disk
from storage.locks import FileLock, LockedError, is_locked
from tests.broken_locks import NO_LOCK, NO_OP, broken_flock

_HOLD = """
import sys, time
from pathlib import Path
from storage.locks import FileLock, LockedError, is_locked
try:
    lock = FileLock(Path(sys.argv[1]))
except LockedError as error:
    print(error, flush=True)
else:
    print("locked", flush=True)
    sys.stdin.read()
    lock.close()
"""


@pytest.fixture(scope="module", params=[NO_LOCK, NO_OP], ids=["ENOLCK", "no-op"])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With a library before the system's, in which `flock` does not do its work."""
    return broken_flock(tmp_path_factory.mktemp("library"), request.param)


@contextmanager
def holder(path: Path, environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that takes the lock, and what it says."""
    command = [sys.executable, "-c", _HOLD, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_second_process_is_refused_where_flock_does_not_work(
    environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / ".lock"
    with holder(path, environment) as (first, said):
        assert said == "locked"
        with holder(path, environment) as (_, second):
            assert second.startswith(f"process {first.pid} on ")
            assert "delete" in second and str(tmp_path / ".lock.owner-") in second
        # A machine on which it does sees that file too.
        with pytest.raises(LockedError, match=f"process {first.pid} on"):
            FileLock(path)
        first.send_signal(signal.SIGKILL)
        first.wait()
    with holder(path, environment) as (third, said):
        assert said == "locked"
        assert third.stdin is not None
        third.stdin.close()
        third.wait()
    assert [one.name for one in tmp_path.iterdir()] == [".lock"]


def no_op(*_: object) -> None:
    """Grants every lock."""


def no_lock(*_: object) -> None:
    """Grants none."""
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize("flock", [no_op, no_lock])
def test_one_of_many_has_the_lock(
    flock: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", flock)
    lock = FileLock(tmp_path / ".lock")
    for _ in range(3):
        with pytest.raises(LockedError):
            FileLock(tmp_path / ".lock")
    lock.close()
    assert not is_locked(tmp_path / ".lock")
    with FileLock(tmp_path / ".lock") as again:
        assert isinstance(again, FileLock) and is_locked(tmp_path / ".lock")
    assert not is_locked(tmp_path / ".lock")


def test_a_process_of_another_machine_is_never_taken_for_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", no_op)
    monkeypatch.setattr("socket.gethostname", lambda: "node-7")
    lock = FileLock(tmp_path / ".lock")
    monkeypatch.setattr("socket.gethostname", lambda: "node-8")
    with pytest.raises(LockedError, match=f"process {os.getpid()} on node-7 is writing since"):
        FileLock(tmp_path / ".lock")
    lock.close()


@pytest.mark.parametrize("change", [{"space": "pid:[1]"}, {"pid": "7"}])
def test_a_process_of_another_container_is_never_taken_for_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    monkeypatch.setattr(fcntl, "flock", no_op)
    lock = FileLock(tmp_path / ".lock")
    (owner,) = tmp_path.glob(".lock.owner-*")
    owner.write_text(json.dumps({**json.loads(owner.read_text()), "begun": "before"}))
    assert not is_locked(tmp_path / ".lock")
    owner.write_text(json.dumps({**json.loads(owner.read_text()), **change}))
    assert is_locked(tmp_path / ".lock")
    lock.close()


def test_no_process_outlives_a_restart_of_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", no_op)
    lock = FileLock(tmp_path / ".lock")
    assert is_locked(tmp_path / ".lock")
    (owner,) = tmp_path.glob(".lock.owner-*")
    owner.write_text(json.dumps({**json.loads(owner.read_text()), "boot": "before"}))
    assert not is_locked(tmp_path / ".lock")
    lock.close()


def test_a_lock_is_seen_as_long_as_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    assert not is_locked(path)
    # That of another program, which writes no name.
    with path.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert is_locked(path)
    assert not is_locked(path)


@pytest.mark.parametrize("written", ["", '{"host": "node', '{"host": "node-7"}', "[]"])
def test_an_owner_that_has_not_written_its_name_yet_has_the_lock(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", no_op)
    (tmp_path / ".lock.owner-1").write_text(written)
    with pytest.raises(LockedError, match=r"^another process is writing;"):
        FileLock(tmp_path / ".lock")
    assert is_locked(tmp_path / ".lock")


_MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 22 0:44 / /home rw,relatime shared:2 - nfs4 filer:/home rw,vers=4.2,local_lock=none,addr=10.0.0.1
41 22 0:45 / /old rw,relatime - nfs filer:/old rw,vers=3,nolock,addr=10.0.0.1
42 22 0:46 / /scratch rw - lustre 10.0.0.2@tcp:/scratch rw,flock,lazystatfs
43 22 0:47 / /scratch/local rw - lustre 10.0.0.2@tcp:/other rw,localflock
44 22 0:48 / /scratch/none rw - lustre 10.0.0.2@tcp:/other rw
45 22 0:49 / /mnt/my\040share ro,nosuid - cifs //server/share rw,vers=3.1.1
46 22 0:50 / /mnt/ssh rw - fuse.sshfs me@host: rw,user_id=0
47 22 0:51 / /mnt/layers rw - fuse.fuse-overlayfs fuse-overlayfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "network", "locks"),
    [
        ("/var/run", "ext4", False, "shared"),
        ("/home/me/out", "nfs4", True, "shared"),
        ("/homes", "ext4", False, "shared"),
        ("/old/out", "nfs", True, "local"),
        ("/scratch/out", "lustre", True, "shared"),
        ("/scratch/local/out", "lustre", True, "local"),
        ("/scratch/none", "lustre", True, "none"),
        ("/mnt/my share/out", "cifs", True, "shared"),
        ("/mnt/ssh/out", "fuse.sshfs", True, "local"),
        ("/mnt/layers/out", "fuse.fuse-overlayfs", False, "shared"),
    ],
)
def test_disks_are_told_by_their_mounts(path: str, kind: str, network: bool, locks: str) -> None:
    disk = find_disk(_MOUNTS, Path(path))
    assert (disk.kind, disk.network, disk.locks) == (kind, network, locks)


def test_without_a_list_of_mounts_a_disk_is_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_disk("nonsense\n", Path("/")) == Disk("")
    assert not Disk("").network
    monkeypatch.setattr("storage.disks._MOUNTS", Path("/nowhere"))
    assert disk_of(Path("/")) == Disk("")
