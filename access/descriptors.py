"""How many connections a server may have, so that file descriptors are left for everything else."""

from __future__ import annotations

import resource
import sys

BACKLOG = 128
"""Connections that may be accepted before any of them is looked at."""
RESERVE = 256
"""Descriptors that are left for runs, files and threads."""
FEWEST_CONNECTIONS, MAX_CONNECTIONS = 64, 4096


def max_connections() -> int:
    """Connections that leave enough descriptors for everything else, under the limit of this process."""
    return max(FEWEST_CONNECTIONS, min(MAX_CONNECTIONS, descriptors() - RESERVE - BACKLOG))


def descriptors() -> int:
    """File descriptors that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
