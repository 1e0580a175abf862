"""A process that gives commands one after the other: imports are paid once, and one that hangs is ended.

Started by `Worker`; reads a job a line on its standard input and answers with a line each.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, process_time
from typing import IO, Any, NamedTuple

ROOT = Path(__file__).parents[2]
_STARTING_S = 600.0


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        words: The command.
        code: Its exit code; None where it had to be killed.
        out, err: What it printed, whatever bytes these are.
        seconds: How long it took.
        megabytes: The most memory that it held beyond what the process had before.
        processor_s: Processor time, which other work on the machine does not lengthen.
    """

    words: tuple[str, ...]
    code: int | None
    out: bytes
    err: bytes
    seconds: float
    megabytes: float
    processor_s: float


class Worker:
    """Gives commands, each within a time limit."""

    def __init__(self) -> None:
        """Nothing is started before the first command."""
        self._process: subprocess.Popen[bytes] | None = None
        self._streams = tempfile.TemporaryDirectory()

    def do(self, words: Sequence[str], folder: Path, environment: Mapping[str, str], limit_s: float) -> Ended:
        """Give a command in a folder."""
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        began = monotonic()
        job = {"words": [*words], "folder": str(folder), "environment": dict(environment)}
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._answer(limit_s)
        if answer is None:
            # Dead, or hanging.
            self.close()
        said = answer or {"code": None, "megabytes": 0.0, "processor_s": 0.0}
        out, err = (Path(self._streams.name, name).read_bytes() for name in ("out", "err"))
        taken = monotonic() - began
        return Ended(tuple(words), said["code"], out, err, taken, said["megabytes"], said["processor_s"])

    def close(self) -> None:
        """End the process; the next command starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                with contextlib.suppress(OSError):
                    stream.close()
        self._process = None

    def end(self) -> None:
        """End the process for good, and delete its files."""
        self.close()
        self._streams.cleanup()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._streams.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        if self._answer(_STARTING_S) is None:
            raise RuntimeError("the process for commands did not start")

    def _answer(self, limit_s: float) -> dict[str, Any] | None:
        assert self._process is not None and self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], limit_s)[0]:
            return None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None


def _serve(folder: Path) -> None:
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    for number, path in enumerate((Path(os.devnull), folder / "out", folder / "err")):
        os.dup2(os.open(path, flags, 0o600), number)
    for name in (
        "cli.running.run",
        "cli.looking.show",
        "cli.measuring.score",
        "cli.looking.export",
        "cli.looking.view",
        "viewer.bundle",
        "runs.execute.sessions",
    ):
        importlib.import_module(name)
    _reply(answers, {})
    for line in jobs:
        job = json.loads(line)
        for number in (1, 2):
            os.ftruncate(number, 0)
        before, began = _begin_measuring(), process_time()
        code = _give(job)
        taken = process_time() - began
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        gc.collect()
        _reply(answers, {"code": code, "megabytes": _peak() - before, "processor_s": taken})


def _reply(answers: IO[str], value: dict[str, Any]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def _give(job: dict[str, Any]) -> int:
    from cli.main import main
    from serving.policy import gate

    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.argv = ["evigraph", *job["words"]]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        return -1
    finally:
        gate.release()
    return 0


def _begin_measuring() -> float:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    """The most memory since the last reset, in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
