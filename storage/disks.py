"""Disk of a folder: local, or shared with other machines, where locks may not hold."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, NamedTuple

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"nfs4?|lustre|gpfs|cifs|smb[23]?|smbfs|9p|virtiofs|afs|ceph|beegfs|pvfs2|orangefs|panfs|wekafs"
    r"|fuse\.(sshfs|glusterfs|ceph|juicefs|beegfs|s3fs|gcsfuse|rclone|davfs|lustre|cvmfs|mount-s3|blobfuse2?)"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")

Locks = Literal["shared", "local", "none"]
"""Who sees a lock: all machines with the disk, only this one, or locks are unavailable."""


class Disk(NamedTuple):
    """The file system of a folder.

    Attributes:
        kind: As the system calls it, such as `ext4`, `nfs4` or `lustre`; empty where it does not say.
    """

    kind: str
    options: frozenset[str] = frozenset()

    @property
    def network(self) -> bool:
        """Whether other machines may write here too; SQLite's write-ahead log does not work there."""
        return _NETWORK.fullmatch(self.kind) is not None

    @property
    def locks(self) -> Locks:
        """Who sees a lock, according to the mount; locks may be unavailable all the same."""
        if self.kind == "lustre":
            return (
                "shared" if "flock" in self.options else "local" if "localflock" in self.options else "none"
            )
        local = {"nolock", "local_lock=all", "local_lock=flock", "nobrl"} & self.options
        # A file system in user space has the locks of this machine's kernel, unless it was written otherwise.
        return "local" if local or (self.kind.startswith("fuse.") and self.network) else "shared"


def disk_of(path: Path) -> Disk:
    """The file system of a path, which need not exist yet."""
    try:
        mounts = _MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return Disk("")
    return find_disk(mounts, Path(os.path.realpath(path)))


def find_disk(mounts: str, path: Path) -> Disk:
    """The file system of a path, which is absolute and without links.

    `mounts` are as in `/proc/self/mountinfo`; of two at one place the later one is seen.
    """
    found, longest, inside = Disk(""), -1, f"{path}/"
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        fields, (kind, *rest) = before.split(), after.split() or [""]
        if not separator or len(fields) < 6:
            continue
        place = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4])
        if len(place) >= longest and inside.startswith(f"{place.rstrip('/')}/"):
            options = frozenset(fields[5].split(",")) | frozenset(",".join(rest[1:]).split(","))
            found, longest = Disk(kind, options), len(place)
    return found


def writable(folder: Path) -> bool:
    """Whether the system's permissions allow new files in a folder."""
    return os.access(folder, os.W_OK)
