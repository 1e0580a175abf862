"""Runs commands in one process and keeps what they print and write, less what differs from run to run."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import itertools
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from cli.main import main
from runs.record.sealed import seal_document, seal_line
from runs.record.trace_file import pack
from tests.goldens.shapes import RESULTS, results_text, shape_text

ROOT = Path(__file__).parents[2]

# To make parsers of all commands takes a tenth of a second, which is most of what many a command takes.
typer.main.get_command = functools.cache(typer.main.get_command)

WIDTH = 200
"""So wide that absolute paths are never wrapped, as their length depends on the checkout."""

VARYING = tuple(
    (re.compile(pattern, re.MULTILINE | re.DOTALL), replacement)
    for pattern, replacement in (
        # Spaces that fill the cells of tables; first, as the widths of cells vary with what is in them.
        (r"[ \t]+$", ""),
        # Durations that commands measure and print at once.
        (r"^time( +)\d[^\n]*$", r"time\1<time>"),
        (r"^(of these  [^\n]*), [\d.]+ s *$", r"\1, <time>"),
        (r'"((?:\w+_)?seconds|query_(?:p95_)?ms|processor_p95_ms)": [\d.e-]+', r'"\1": "<time>"'),
        (r"^(build +)[\d.]+ seconds for (\d+ documents), [\d,.]+ a second$", r"\1<time> for \2"),
        (r"^(a query +|a query: |processor time of a query: )[^\n]* ms$", r"\1<time>"),
        (r'"reviewed_at": "(?!2026-01-01T00:00:00)[^"]*"', '"reviewed_at": "<time>"'),
        # Memory, and sizes of files that hold paths, times or compressed bytes.
        (r"^(memory of the build +)[\d,]+ MB$", r"\1<memory>"),
        (r'"peak_mb": [\d.]+', '"peak_mb": "<memory>"'),
        (r"^(on disk +)[\d.]+ [kM]B", r"\1<size>"),
        (r'"bytes": \d+', '"bytes": "<size>"'),
        # Of lines, whose content stands before it.
        (r', "crc32": "[0-9a-f]{8}"', ""),
        (r"[\d.]+ MB in (\d+ files)", r"<size> in \1"),
        # Versions of this program and of others, but for the runs: `settle` gives them some.
        (r'"versions": \{[^}]*\}', '"versions": "<versions>"'),
        (r'("(?:service|gen_ai\.agent)\.version", "value": \{"stringValue": )"[^"]*"', r'\1"<version>"'),
        # Drawings, in coordinates of the installed fonts.
        (r"<svg.*?</svg>", "<svg></svg>"),
        # The last digits of a sum depend on the processor.
        (r"(\d\.\d{11})\d+(?![\de])", r"\1~"),
    )
)
"""Values that differ between runs, and their placeholders."""

STARTED = "2026-01-01T00:00:00+00:00"
FINISHED = "2026-01-01T00:00:01+00:00"
STARTED_AT = 1_767_225_600.0


class Recorder:
    """The goldens so far, by name, and the folder that commands run in."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.goldens: dict[str, str] = {}
        self.folder = folder
        self.reached: dict[str, set[str]] = {}
        self._places = [(str(folder), "<work>"), (str(cache), "<cache>"), (str(ROOT), "<checkout>")]

    def command(self, name: str, *arguments: str, width: int = WIDTH) -> None:
        """Run a command; keep its exit code, both of its streams, and the hosts that it turned to.

        Of the object that `--json` prints the keys and types are kept.
        """
        code, out, err = self.do(*arguments, width=width)
        if "--json" in arguments:
            out = shape_text(out)
        parts = [f"$ evigraph {' '.join(arguments)}\nexit code {code}\n", out]
        if err:
            parts.append(f"standard error:\n{err}")
        self.keep(f"{name}.txt", "\n".join(parts))

    def do(self, *arguments: str, width: int = WIDTH) -> tuple[int, str, str]:
        """Run a command and keep the hosts that it turned to; its exit code and streams."""
        _REACHED.clear()
        ended = evigraph(arguments, width)
        words = " ".join(itertools.takewhile(lambda word: not word.startswith("-"), arguments))
        self.reached.setdefault(words, set()).update(_REACHED)
        return ended

    def results(self, name: str, *arguments: str) -> None:
        """Keep every figure that a command prints with `--json`, in full.

        Raises:
            ValueError: It failed.
        """
        code, out, err = self.do(*arguments, "--json")
        if code:
            raise ValueError(f"{' '.join(arguments)}: {err}")
        self.keep(f"{RESULTS}/{name}.txt", results_text(f"$ evigraph {' '.join(arguments)} --json", out))

    def run(self, name: str, *arguments: str, manifest: bool = False) -> None:
        """Start a run in a folder of that name, give it fixed times, and keep its files."""
        self.command(f"{name}/run", *arguments, *ONE_AT_A_TIME, "--out", name)
        self.run_files(name, name, manifest=manifest)

    def run_files(self, name: str, run: str, *, manifest: bool = False) -> None:
        """Give a run fixed times and keep its cases, its trace and, if asked, its manifest."""
        settle(self.folder / run)
        if manifest:
            content = json.loads((self.folder / run / "run.json").read_text("utf-8"))
            del content["crc32"]
            self.keep(f"{name}/run.json", _manifest_text(content))
        self.file(f"{name}/cases.jsonl", f"{run}/cases.jsonl")
        trace = gzip.decompress((self.folder / run / "trace.jsonl.gz").read_bytes()).decode()
        self.keep(f"{name}/trace.jsonl", trace)

    def file(self, name: str, path: str) -> None:
        """Keep a file that a command wrote."""
        kept = self.folder / path
        self.keep(name, kept.read_text("utf-8") if kept.is_file() else "(no such file)\n")

    def rows(self, name: str, path: str) -> None:
        """Keep a table of Parquet, its types and its rows."""
        import pyarrow.parquet as pq

        table = pq.read_table(self.folder / path)
        types = "".join(f"{field.name}: {field.type}\n" for field in table.schema)
        rows = "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in table.to_pylist())
        self.keep(name, f"{types}\n{rows}")

    def listing(self, name: str, folder: str) -> None:
        """Keep the names of all files below a folder."""
        place = self.folder / folder
        lines = [path.relative_to(place).as_posix() for path in sorted(place.rglob("*")) if path.is_file()]
        self.keep(name, "\n".join(lines))

    def keep(self, name: str, text: str) -> None:
        """Add a golden.

        Raises:
            ValueError: There is one of this name.
        """
        if name in self.goldens:
            raise ValueError(f"two goldens are called {name}")
        for path, place in self._places:
            text = text.replace(path, place)
        for pattern, replacement in () if name.startswith(f"{RESULTS}/") else VARYING:
            text = pattern.sub(replacement, text)
        self.goldens[name] = text.rstrip("\n") + "\n"


_REACHED: set[str] = set()
"""Hosts that this process has looked up, connected to or sent to since a command began."""


def watch(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook."""
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        _REACHED.add(str(arguments[0] if event.startswith("socket.get") else arguments[1]))


ONE_AT_A_TIME = ("--concurrency", "1")
"""Cases of a trace are in the order in which they ended."""


def evigraph(arguments: Iterable[str], width: int) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command that runs in this process."""
    os.environ["COLUMNS"] = str(width)
    sys.argv = ["evigraph", *arguments]
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return code, out.getvalue(), err.getvalue()


def settle(run: Path) -> None:
    """Write fixed times and versions into a run folder, so that everything printed about it is fixed as well.

    Raises:
        ValueError: A file is laid out as this function would not write it.
    """
    manifest = run / "run.json"
    content = json.loads(manifest.read_text("utf-8"))
    _check_layout(manifest.read_text("utf-8"), _manifest_text(content), manifest)
    del content["crc32"]
    content |= {"evigraph": "0", "versions": {"python": "0"}}
    for session in content["sessions"]:
        session |= {"started": STARTED, "finished": FINISHED, "seconds": 1.0}
    manifest.write_bytes(seal_document(_manifest_text(content).encode()))
    reviews, cases = run / "reviews.jsonl", run / "cases.jsonl"
    if reviews.is_file():
        reviews.write_text(_REVIEWED_AT.sub(f"\\g<1>{STARTED}", reviews.read_text("utf-8")), "utf-8")
    lines = _REVIEWED_AT.sub(f"\\g<1>{STARTED}", _CHECKSUM.sub("", cases.read_text("utf-8"))).splitlines()
    cases.write_bytes(b"".join(seal_line(line.encode()) + b"\n" for line in lines))
    trace = run / "trace.jsonl.gz"
    passes: list[list[dict[str, Any]]] = [[]]
    for line in gzip.decompress(trace.read_bytes()).decode().splitlines():
        read = json.loads(line)
        _check_layout(line, json.dumps(read, ensure_ascii=False), trace)
        passes[-1].append(_timed(read))
        if read["node"] == "__end__":
            passes.append([])
    trace.write_bytes(b"".join(pack(lines) for lines in passes if lines))
    # It is made anew.
    (run / "index.sqlite").unlink(missing_ok=True)


_CHECKSUM = re.compile(r', "crc32": "[0-9a-f]{8}"')
_REVIEWED_AT = re.compile(r'("reviewed_at": ?")[^"]*')


def _manifest_text(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _check_layout(found: str, expected: str, path: Path) -> None:
    if found != expected:
        raise ValueError(f"{path}: another layout of JSON than before: {found[:200]}")


def _timed(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line of a trace: a quarter of a second a step, half of which its calls take."""
    if line["node"] == "__end__":
        return {**line, "started_at": STARTED_AT, "seconds": 0.25 * line["step"]}
    calls = [call | {"seconds": 0.125} for call in line["calls"]]
    return {**line, "started": 0.25 * line["step"], "seconds": 0.25, "calls": calls}
