"""The lines of a trace, one a node execution, made of LangGraph's task events; and `trace.jsonl.gz`.

The file has one gzip member a pass, so that a pass is found, read and cut off by itself.

Every member has its own length in an extra field of its header (RFC 1952, section 2.3.1.1): a reader hops
from member to member without unpacking, and `zcat` reads the whole file all the same.
"""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from nodes.core.failure import NodeFailure
from runs.manifest import RunError

TRACE = "trace.jsonl.gz"

Line = dict[str, Any]

_HEADER = struct.Struct("<4sIBBH2sHI")
_TRAILER = struct.Struct("<II")
_START = b"\x1f\x8b\x08\x04"  # gzip, deflate, with an extra field
_FIELD = b"EG"
_LEVEL = 1
_UNKNOWN_SYSTEM = 255


class Place(NamedTuple):
    """Where a pass is in the file, in bytes."""

    start: int
    end: int


def pack(lines: Sequence[Line]) -> bytes:
    """The lines of a pass as one gzip member."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode(errors="replace")
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(text) + deflate.flush()
    length = _HEADER.size + len(body) + _TRAILER.size
    header = _HEADER.pack(_START, 0, 0, _UNKNOWN_SYSTEM, 8, _FIELD, 4, length)
    return header + body + _TRAILER.pack(zlib.crc32(text), len(text) & 0xFFFFFFFF)


class TraceFile:
    """Reads the passes of a run folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is opened yet; a run without a trace has no passes."""
        self._path = folder / TRACE

    def places(self, after: Place | None = None) -> Iterator[Place]:
        """Where the passes are, in the order of writing; only whole ones."""
        if not self._path.is_file():
            return
        start = after.end if after is not None else 0
        with self._path.open("rb") as file:
            for end in _member_ends(file, start):
                yield Place(start, end)
                start = end

    def read(self, place: Place) -> list[Line]:
        """The node executions of a pass.

        Raises:
            RunError: The bytes are damaged.
            OSError: The file cannot be read.
        """
        with self._path.open("rb") as file:
            return _unpacked(self._path, file, place)

    def passes(self) -> Iterator[list[Line]]:
        """Every pass, streamed.

        Raises:
            RunError: Bytes in the middle are damaged.
        """
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            for place in self.places():
                yield _unpacked(self._path, file, place)


def open_for_append(folder: Path) -> IO[bytes]:
    """Open at the end of the last whole pass; what a kill has torn is cut off.

    Unbuffered, so that a failed write leaves nothing behind.

    Raises:
        RunError: There is more behind the last whole pass than a torn one.
        OSError: The file cannot be opened.
    """
    path = folder / TRACE
    file = path.open("r+b" if path.exists() else "w+b", buffering=0)
    end = max(_member_ends(file, 0), default=0)
    file.seek(end)
    rest = file.read(_HEADER.size)
    if not _is_torn(rest):
        file.close()
        raise RunError(f"{path}: damaged from byte {end:,} on; nothing was written to it")
    file.truncate(end)
    file.seek(end)
    return file


def _member_ends(file: IO[bytes], start: int) -> Iterator[int]:
    size = os.fstat(file.fileno()).st_size
    while start + _HEADER.size <= size:
        file.seek(start)
        magic, _, _, _, _, field, _, length = _HEADER.unpack(file.read(_HEADER.size))
        if magic != _START or field != _FIELD or start + length > size:
            return
        start += length
        yield start


def _is_torn(rest: bytes) -> bool:
    """Whether this may be the beginning of a member, or what a loss of power leaves of one."""
    return rest.startswith(_START[: len(rest)]) or not rest.strip(b"\0")


def _unpacked(path: Path, file: IO[bytes], place: Place) -> list[Line]:
    file.seek(place.start)
    raw = file.read(place.end - place.start)
    try:
        return [orjson.loads(line) for line in zlib.decompress(raw, zlib.MAX_WBITS | 16).splitlines()]
    except (zlib.error, orjson.JSONDecodeError) as error:
        raise RunError(f"{path}: damaged from byte {place.start:,} to {place.end:,}: {error}") from None


Successors = Mapping[str, frozenset[str]]
"""Node to the nodes that may follow it."""

_HANDLER = "__error_handler__"


@dataclass(slots=True)
class _Execution:
    name: str
    superstep: int
    reads: list[str]
    started: float
    seconds: float | None = None
    writes: list[str] = field(default_factory=list)
    decision: Line | None = None
    error: str | None = None


@dataclass(slots=True)
class CaseTrace:
    """Collects the node executions of one case. Times are seconds since the case began."""

    case_id: str
    successors: Successors
    started_at: float = field(default_factory=time.time)
    _begin: float = field(default_factory=time.perf_counter)
    _executions: dict[str, _Execution] = field(default_factory=dict)

    def record(self, task: Mapping[str, Any], superstep: int) -> None:
        """Take the start or the end of a node, as the stream mode `tasks` tells it.

        Args:
            task: What LangGraph tells; an end has a result.
            superstep: Its number; those of a case are in order.
        """
        now = time.perf_counter() - self._begin
        if "result" not in task:
            reads = sorted(task["input"]) if isinstance(task["input"], dict) else []
            self._executions[task["id"]] = _Execution(task["name"], superstep, reads, started=now)
            return
        # LangGraph announces the end of an error handler whose start it never announced.
        execution = self._executions.setdefault(
            task["id"], _Execution(task["name"], superstep, [], started=now)
        )
        execution.seconds = now - execution.started
        error = task.get("error")
        execution.error = None if error is None else f"{type(error).__name__}: {error}"
        result = task.get("result")
        decisions = None
        if isinstance(result, dict):
            execution.writes = sorted(result.keys() - {"decisions"})
            decisions = result.get("decisions")
        if decisions:
            execution.decision = decisions[0]
        elif task.get("interrupts"):
            execution.decision = task["interrupts"][0]["value"]

    @property
    def seconds(self) -> float:
        """Since the case began."""
        return time.perf_counter() - self._begin

    def lines(self, failure: NodeFailure | None) -> list[Line]:
        """Trace lines in order of start; the calls of a failed node come from its failure."""
        executions = self._with_handlers_folded_in()
        return [self._line(step, executions, failure) for step in range(len(executions))]

    def _with_handlers_folded_in(self) -> list[_Execution]:
        """An error handler's decision belongs to the execution that failed; the two are one line."""
        kept = [one for one in self._executions.values() if not one.name.startswith(_HANDLER)]
        for handler in self._executions.values():
            name = handler.name.removeprefix(_HANDLER)
            failed = (one for one in kept if one.name == name and one.error and one.decision is None)
            if handler.name.startswith(_HANDLER) and (execution := next(failed, None)) is not None:
                execution.decision, execution.writes = handler.decision, handler.writes
        return kept

    def _line(self, step: int, executions: Sequence[_Execution], failure: NodeFailure | None) -> Line:
        execution = executions[step]
        line: Line = {
            "case_id": self.case_id,
            "step": step,
            "node": execution.name,
            "started": round(execution.started, 4),
            "seconds": round(execution.seconds if execution.seconds is not None else 0.0, 4),
            "reads": {key: _writers(key, execution, executions) for key in execution.reads},
            "writes": execution.writes,
            "because": "",
            "facts": {},
            "flags": [],
            "calls": [],
            "next": self._next(step, executions),
            "error": execution.error,
        }
        if execution.decision is not None:
            line |= {key: execution.decision[key] for key in ("because", "facts", "calls")}
            line["flags"] = execution.decision.get("flags", [])
        elif execution.error is not None and failure is not None:
            line["because"] = f"failed: {failure.error_class}: {failure}"
            line["calls"] = [call.as_line() for call in failure.calls]
        return line

    def _next(self, step: int, executions: Sequence[_Execution]) -> list[str]:
        """Which of the possible successors ran first after this node: the route that was taken."""
        execution = executions[step]
        possible = self.successors.get(execution.name, frozenset())
        later = [one for one in executions if one.name in possible and one.superstep > execution.superstep]
        first = min((one.superstep for one in later), default=None)
        return sorted({one.name for one in later if one.superstep == first})


def _writers(key: str, reader: _Execution, executions: Sequence[_Execution]) -> list[int]:
    """Steps that had written a key of the state before it was read; none wrote what a fan-out handed over."""
    return [
        step for step, one in enumerate(executions) if key in one.writes and one.superstep < reader.superstep
    ]
