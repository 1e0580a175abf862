"""What this process has used."""

from __future__ import annotations

import gc
import re
import resource
from pathlib import Path

from evals.bench.result import BenchError

_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


def processor_seconds() -> float:
    """User and system time of all threads of this process; children are not in it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_mb() -> float:
    """Resident memory after a full garbage collection, in MB of 2**20 bytes.

    Raises:
        BenchError: The system does not tell, as outside Linux.
    """
    gc.collect()
    try:
        found = _RESIDENT.search(Path("/proc/self/status").read_text("utf-8"))
    except OSError:
        found = None
    if found is None:
        raise BenchError("resident memory is read from /proc/self/status, which this system does not have")
    return int(found[1]) / 1024
