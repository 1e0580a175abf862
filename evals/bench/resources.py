"""What this process has used."""

from __future__ import annotations

import gc
import re
import resource
from pathlib import Path

from evals.bench.result import BenchError

_KILOBYTES = r"^{}:\s+(\d+) kB$"


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
    return _status("VmRSS")


def peak_mb() -> float:
    """The most resident memory of this program so far, in MB of 2**20 bytes.

    Not what getrusage tells: there a child begins with the peak of its parent.

    Raises:
        BenchError: The system does not tell, as outside Linux.
    """
    return _status("VmHWM")


def _status(name: str) -> float:
    try:
        status = Path("/proc/self/status").read_text("utf-8")
    except OSError:
        status = ""
    found = re.search(_KILOBYTES.format(name), status, re.MULTILINE)
    if found is None:
        raise BenchError("resident memory is read from /proc/self/status, which this system does not have")
    return int(found[1]) / 1024
