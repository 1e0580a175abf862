"""One file a command: parse, call, print."""

from __future__ import annotations

import sys
from pathlib import Path

if (
    not sys.flags.safe_path
    and sys.argv[:1] in (["-m"], ["-c"])
    and sys.path[:1]
    and Path(sys.path[0]).absolute() == Path.cwd()
):
    # `python -m` and `python -c` look into the current folder first, which may have a `cases` or `runs` of
    # its own. The installed packages come first.
    sys.path.append(sys.path.pop(0))
