"""The session of tests itself: what it passes on to children, and what it says at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SESSION = """\
import signal, subprocess, sys
import pytest
from hypothesis import settings

def test_children():
    child = "import signal; print([signal.getsignal(one) for one in (signal.SIGHUP, signal.SIGINT)])"
    printed = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout
    assert "SIG_DFL" in printed and "default_int_handler" in printed

def test_examples():
    assert settings().derandomize

@pytest.mark.parametrize("number", range(2))
@pytest.mark.skip(reason="no Chromium on the PATH")
def test_page(number): ...

@pytest.mark.skip(reason="not today")
def test_nothing(): ...
"""
"""Under `nohup`, and in the background of a script, both signals are ignored from the start."""
WITHOUT_SIGNALS = """\
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_signals_are_those_of_a_terminal_and_skips_are_listed_with_their_remedy(
    tmp_path: Path, workers: str
) -> None:
    (tmp_path / "test_session.py").write_text(SESSION)
    # Other packages bring plugins along that take several times as long to import as all the rest.
    arguments = [
        "-p",
        "xdist",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "-n",
        workers,
    ]
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_SIGNALS, *arguments, f"--rootdir={tmp_path}", tmp_path],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    *_, heading, chromium, other, closing = filter(None, ended.stdout.splitlines())
    assert "not run" in heading
    assert chromium == "2 skipped: no Chromium on the PATH; remedy: apt-get install chromium"
    assert other == "1 skipped: not today"
    assert "2 passed, 3 skipped" in closing


def test_an_ignored_signal_is_still_ignored_by_the_session_itself() -> None:
    program = (
        "import os, signal\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "import tests.conftest\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "print('alive')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.stdout == "alive\n", ended.stderr
    assert signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


ORDER = """\
import os, time
from pathlib import Path

worker = os.environ["PYTEST_XDIST_WORKER"]
with Path(__file__).with_name("order").open("a") as order:
    print(worker, "begins", file=order, flush=True)
    time.sleep(worker == "gw0")
    print(worker, "ends", file=order)

def test_nothing(): ...
"""
"""The first worker takes long enough for the other to come in between, if it may."""


def test_the_first_worker_collects_alone(tmp_path: Path) -> None:
    (tmp_path / "test_order.py").write_text(ORDER)
    plugins = ("-p", "xdist", "-p", "tests.conftest", "-p", "no:cacheprovider")
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *plugins,
            "-c",
            "/dev/null",
            "-n",
            "2",
            f"--rootdir={tmp_path}",
            tmp_path,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    order = (tmp_path / "order").read_text().splitlines()
    assert order == ["gw0 begins", "gw0 ends", "gw1 begins", "gw1 ends"]
