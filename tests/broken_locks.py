"""A library before the system's, in which `flock` does not do its work, as on some file systems."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_BROKEN = """
#include <errno.h>
int flock(int file, int operation) { RESULT }
"""

NO_LOCK, NO_OP = "errno = ENOLCK; return -1;", "return 0;"


def broken_flock(folder: Path, result: str) -> dict[str, str]:
    """The environment of a process for which it is so.

    Args:
        folder: Where the library is made.
        result: What `flock` does, in C.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (folder / "broken.c").write_text(_BROKEN.replace("RESULT", result))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "broken.so", "broken.c"], cwd=folder, check=True)
    return {**os.environ, "LD_PRELOAD": str(folder / "broken.so")}
