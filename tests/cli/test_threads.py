"""The environment that the command line sets before anything heavy is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from weights.loading import let_threads_sleep

_THREADS = ("OMP_", "GOMP_", "KMP_")
_CODE = """
import os, sys
sys.argv = ["evigraph", "--version"]
from cli.main import main
try:
    main()
except SystemExit:
    pass
print("torch" in sys.modules, *map(os.environ.get, ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")))
"""


def test_a_command_sets_it_before_torch_is_there() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_THREADS)}
    ended = subprocess.run(
        [sys.executable, "-c", _CODE], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1] == "False PASSIVE 1000 0"


def test_values_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.setenv("KMP_BLOCKTIME", "200")
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    let_threads_sleep()
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["KMP_BLOCKTIME"]) == ("ACTIVE", "200")
    assert "GOMP_SPINCOUNT" not in os.environ
