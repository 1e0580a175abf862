"""Gives hostile files, servers and requests to the commands and the viewer, and counts what came of them.

    python -m tools.hostile 1000

prints a table by kind, and each fault with the seed that repeats it: `python -m tools.hostile 1 SEED`.
A third argument draws only `files`, `servers` or `requests`.
"""

from __future__ import annotations

import sys

from tools.hostile.batch import main

if __name__ == "__main__":
    count, first, only = [*sys.argv[1:], *("0", "")[len(sys.argv) - 2 :]]
    sys.exit(main(int(count), int(first), only))
