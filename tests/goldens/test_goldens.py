"""What the command line prints and writes is what it printed and wrote before, word for word.

`EVIGRAPH_UPDATE_GOLDENS=1 pytest tests/goldens` writes the goldens anew; the difference is for a reader to
judge.
"""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.goldens.shapes import RESULTS, same_results

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
UPDATE = "EVIGRAPH_UPDATE_GOLDENS"
KEPT = ("PATH", "HOME", "TMPDIR", "PYTHONHASHSEED", "OMP_NUM_THREADS")
"""Of the environment; what else is set may change what is printed."""


def texts(folder: Path) -> dict[str, str]:
    """Goldens below a folder, by name."""
    files = (path for path in folder.glob("*/**/*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes().decode() for path in sorted(files)}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """All current outputs, recorded by a separate process."""
    goldens, scratch = tmp_path_factory.mktemp("goldens"), tmp_path_factory.mktemp("scratch")
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "TZ": "UTC"}
    command = [sys.executable, "-m", "tests.goldens.outputs", str(goldens), str(scratch)]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert ended.returncode == 0, ended.stderr
    found = texts(goldens)
    if os.environ.get(UPDATE):
        for folder in {name.split("/")[0] for name in {*found, *texts(HERE)}}:
            shutil.rmtree(HERE / folder, ignore_errors=True)
        shutil.copytree(goldens, HERE, dirs_exist_ok=True)
    return found


@pytest.mark.parametrize("name", texts(HERE))
def test_golden(name: str, recorded: dict[str, str]) -> None:
    if os.environ.get(UPDATE):
        return
    before, now = (HERE / name).read_bytes().decode(), recorded.get(name, "")
    same = same_results(before, now) if name.startswith(f"{RESULTS}/") else before == now
    if not same:
        lines = difflib.unified_diff(before.splitlines(), now.splitlines(), name, "now", lineterm="")
        pytest.fail("\n".join(lines), pytrace=False)


def test_goldens_are_all_there_and_no_others(recorded: dict[str, str]) -> None:
    assert sorted(texts(HERE)) == sorted(recorded)
