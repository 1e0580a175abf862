"""Runs the command line as a user does: another process, its exit code, its two streams."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

if TYPE_CHECKING:
    from retrieval.embeddings import LexicalEmbedder

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-c", "from cli.main import main; main()"]

LEXICAL_RECIPE = """\
system: tamu
embedding: lexical:256
evidence: {demonstrations: 1, votes: 3, threshold: 2}
answer: {demonstrations: 1}
"""
"""Small, and without weights."""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        """The object that `--json` printed; fails if there is anything else on standard output."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    @property
    def line(self) -> str:
        """The one line of an error; fails if there are more."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("evigraph: ")]
        assert "Traceback" not in self.err
        return line.removeprefix("evigraph: ")


def evigraph(
    *arguments: str | Path,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    timeout: float = 300,
    by_words: bool = False,
) -> Ended:
    """Run a command in a folder.

    Args:
        arguments: What is typed after `evigraph`.
        folder: Where it is typed.
        environment: Added to this process's. Packages of a folder in its `PYTHONPATH` come before ours.
        timeout: Seconds.
        by_words: Embed by words: to load the packaged encoder takes longer than most commands.
    """
    with tempfile.TemporaryDirectory() as streams:
        out, err = Path(streams, "out"), Path(streams, "err")
        given = environment or {}
        environment = {**os.environ, "COLUMNS": "200", **given}
        target = ([*map(str, arguments)], folder, environment, out, err, by_words)
        # aiohttp reads certificates when it is imported.
        context = multiprocessing.get_context("spawn") if "SSL_CERT_FILE" in given else processes()
        process = context.Process(target=run_command, args=target)
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"{arguments} took more than {timeout:g} s: {err.read_text()}")
        return Ended(process.exitcode, out.read_text("utf-8"), err.read_text("utf-8"))


class Started:
    """A command that runs in parallel to the test, which may send it signals."""

    def __init__(
        self,
        *arguments: str | Path,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        out: Path = Path(os.devnull),
        err: Path = Path(os.devnull),
    ) -> None:
        """Start it in a folder; the streams go into files."""
        given = {**os.environ, "COLUMNS": "200", **(environment or {})}
        target = ([*map(str, arguments)], folder, given, out, err, False)
        self._process = processes().Process(target=run_command, args=target)
        self._process.start()

    def poll(self) -> int | None:
        """The exit code, if it has ended; negative for a signal."""
        return self._process.exitcode

    @property
    def resident_mb(self) -> float:
        """The memory that it has."""
        assert self._process.pid is not None
        return resident_mb(self._process.pid)

    def send_signal(self, number: int) -> None:
        """Send it, if the process has not ended meanwhile."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def wait(self, timeout: float) -> int:
        """The exit code; it is killed after so many seconds."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
            raise TimeoutError(f"the command did not end in {timeout:g} s")
        return code


def resident_mb(process: int) -> float:
    """The memory of a process; Linux alone tells it."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


@cache
def processes() -> ForkServerContext:
    """Processes that begin with what commands import: that takes most of a command's time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded"])
    return context


def _forget_ours() -> None:
    """Let the packages be imported once more, from another folder."""
    names = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[name]


def run_command(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    out: Path,
    err: Path,
    by_words: bool,
) -> None:
    """What `COMMAND` does, in a process that exists already; the streams are files, or one file."""
    written = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, (path, flags) in enumerate(((Path(os.devnull), os.O_RDONLY), (out, written), (err, written))):
        os.dup2(os.open(path, flags, 0o600), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    folders = [*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:0] = ["", *folders]
    if any(Path(one, "cli").is_dir() and not ROOT.samefile(one) for one in folders):
        _forget_ours()
    sys.argv = ["-c", *arguments]

    if by_words:
        mock.patch("retrieval.embeddings.SentenceEmbedder", _words_for).start()

    from cli.main import main

    main()


def _words_for(encoder: str) -> LexicalEmbedder:
    """An embedder in the place of one with weights."""
    from retrieval.embeddings import LexicalEmbedder

    return LexicalEmbedder(1024)


def program(name: str) -> Path:
    """A program that a package of the development extra has brought."""
    return Path(sys.executable).with_name(name)


def said(*arguments: str | Path) -> str:
    """What a command prints in this process, or the one line with which it ends."""
    from typer.testing import CliRunner

    from cli.main import app

    ended = CliRunner().invoke(app, [*map(str, arguments)])
    if ended.exception is not None:
        assert not isinstance(ended.exception, SystemExit), ended.output
        return str(ended.exception)
    return " ".join(ended.stdout.split())


def write_cases(path: Path, count: int, sentences: int = 6) -> Path:
    """Plain JSONL cases `k0`, `k1`, ..."""
    lines = [
        json.dumps(
            {
                "case_id": f"k{number}",
                "narrative": f"I still think about number {number}. Why was it done?",
                "question": f"Why was procedure {number} done?",
                "sentences": [
                    f"Sentence {s} of note {number} on procedure {number * s}." for s in range(sentences)
                ],
            }
        )
        for number in range(count)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def edit_manifest(run: Path, **fields: Any) -> None:
    """Change fields of `run.json` as a person would, and so without its checksum."""
    manifest = json.loads((run / "run.json").read_text())
    manifest.pop("crc32", None)
    (run / "run.json").write_text(json.dumps({**manifest, **fields}))


def write_recipe(folder: Path) -> Path:
    """The lexical recipe as a file."""
    path = folder / "lexical.yaml"
    path.write_text(LEXICAL_RECIPE)
    return path
