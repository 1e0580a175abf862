"""The lines of a trace, one per node execution, from LangGraph's task events; and `trace.jsonl.gz`.

The file has one gzip member a pass, so that a pass is found, read and cut off by itself.

Every member has its own length in an extra field of its header (RFC 1952, section 2.3.1.1): a reader hops
from member to member without unpacking, and `zcat` reads the whole file all the same.
"""

from __future__ import annotations

import json
import mmap
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
from runs.record.manifest import RunError, repair_hint
from storage.private import open_here

TRACE = "trace.jsonl.gz"

Line = dict[str, Any]

_LENGTH = struct.Struct("<I")
_TRAILER = struct.Struct("<II")
_LEVEL = 1
# gzip, deflate, an extra field; no time, no hint, unknown system; 8 bytes of field, of which "EG" has 4.
_START = b"\x1f\x8b\x08\x04" + bytes(4) + b"\x00\xff" + b"\x08\x00" + b"EG" + b"\x04\x00"
_HEADER_SIZE = len(_START) + _LENGTH.size
_SMALLEST = _HEADER_SIZE + 2 + _TRAILER.size


class Place(NamedTuple):
    """Position of a pass in the file, in bytes."""

    start: int
    end: int


def pack(lines: Sequence[Line]) -> bytes:
    """The lines of a pass as one gzip member."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode(errors="replace")
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(text) + deflate.flush()
    length = _HEADER_SIZE + len(body) + _TRAILER.size
    trailer = _TRAILER.pack(zlib.crc32(text), len(text) & 0xFFFFFFFF)
    return b"".join((_START, _LENGTH.pack(length), body, trailer))


class Member(NamedTuple):
    """A stretch of the file: a pass, or bytes that are none.

    Attributes:
        lines: Lines of the pass; None if they cannot be read.
        fault: Fault of the bytes; empty for a complete pass, and for the torn one that a kill leaves.
    """

    start: int
    end: int
    lines: list[Line] | None
    fault: str = ""


class TraceFile:
    """Reads the passes of a run folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / TRACE

    def places(self, after: Place | None = None) -> Iterator[Place]:
        """Positions of the complete passes, in the order of writing.

        Raises:
            RunError: There is more behind one of them than a torn one.
        """
        if not self._path.is_file():
            return
        start = after.end if after is not None else 0
        with self._path.open("rb") as file:
            for end in _member_ends(self._path, file, start):
                yield Place(start, end)
                start = end

    def members(self) -> Iterator[Member]:
        """Every stretch of the file, damaged ones too; a pass is found by its beginning, not by its length.

        Raises:
            OSError: The file cannot be read.
        """
        if not self._path.is_file() or not self._path.stat().st_size:
            return
        with self._path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start, size = content.find(_START), len(content)
            if start != 0:
                first = size if start < 0 else start
                yield Member(0, first, None, "" if start < 0 and _is_torn(content[:]) else "is not a pass")
            while 0 <= start < size:
                following = content.find(_START, start + 1)
                end = size if following < 0 else following
                yield from _members_of(content[start:end], start, last=following < 0)
                start = following

    def read(self, place: Place) -> list[Line]:
        """The node executions of a pass.

        Raises:
            RunError: The bytes are damaged.
            OSError: The file cannot be read.
        """
        with self._path.open("rb") as file:
            return _read_member(self._path, file, place)

    def passes(self) -> Iterator[list[Line]]:
        """Every pass, streamed.

        Raises:
            RunError: Bytes in the middle are damaged.
        """
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            for place in self.places():
                yield _read_member(self._path, file, place)


def open_for_append(folder: Path) -> IO[bytes]:
    """Open at the end of the last complete pass; a torn end is cut off.

    Unbuffered, so that a failed write leaves nothing behind.

    Raises:
        RunError: There is more behind the last whole pass than a torn one.
        OSError: The file cannot be opened.
    """
    path = folder / TRACE
    file = open_here(path, "r+b" if path.exists() else "w+b")
    try:
        end = max(_member_ends(path, file, 0), default=0)
    except RunError:
        file.close()
        raise
    file.truncate(end)
    file.seek(end)
    return file


def _member_ends(path: Path, file: IO[bytes], start: int) -> Iterator[int]:
    """Offsets of the ends of complete members. Only a torn one may follow the last.

    Raises:
        RunError: There is something else.
    """
    size = os.fstat(file.fileno()).st_size
    while start < size:
        file.seek(start)
        head = file.read(_HEADER_SIZE)
        length = _LENGTH.unpack(head[-_LENGTH.size :])[0] if len(head) == _HEADER_SIZE else 0
        if not head.startswith(_START) or length < _SMALLEST or start + length > size:
            file.seek(start)
            if not _is_torn(file.read()):
                raise RunError(_damage(path, start))
            return
        start += length
        yield start


def _damage(path: Path, start: int, end: int | None = None, why: str = "") -> str:
    place = f"from byte {start:,} " + ("on" if end is None else f"to {end:,}")
    reason = f": {why}" if why else ""
    return f"{path}: damaged {place}{reason}; {repair_hint(path.parent)}"


def _is_torn(rest: bytes) -> bool:
    """Whether this may be the beginning of a member, or its remains after a power cut."""
    if not rest.strip(b"\0"):
        return True
    if not rest.startswith(_START[: len(rest)]) or _START in rest[1:]:
        return False
    # A member that is all there was not torn: its length is wrong.
    return _unpacked(rest)[1] == "is cut off"


def _members_of(content: bytes, start: int, *, last: bool) -> Iterator[Member]:
    """Members between the beginnings of two members."""
    lines, fault, size = _unpacked(content)
    end = start + len(content)
    if lines is None:
        torn = last and fault == "is cut off"
        yield Member(start, end, None, "" if torn else fault)
        return
    claimed = _LENGTH.unpack_from(content, len(_START))[0]
    yield Member(start, start + size, lines, "" if claimed == size else "its length is damaged")
    if size < len(content):
        torn = last and _is_torn(content[size:])
        yield Member(start + size, end, None, "" if torn else "is not a pass")


def _unpacked(content: bytes) -> tuple[list[Line] | None, str, int]:
    """The lines of the member that bytes begin with, or why there are none; and its size."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        text = unpacker.decompress(content)
        if not unpacker.eof:
            return None, "is cut off", 0
        lines = [orjson.loads(line) for line in text.splitlines()]
    except (zlib.error, orjson.JSONDecodeError) as error:
        return None, str(error), 0
    if not lines or not all(isinstance(line, dict) and {"case_id", "node"} <= line.keys() for line in lines):
        return None, "holds no lines of a case", 0
    return lines, "", len(content) - len(unpacker.unused_data)


def _read_member(path: Path, file: IO[bytes], place: Place) -> list[Line]:
    file.seek(place.start)
    content = file.read(place.end - place.start)
    lines, fault, size = _unpacked(content)
    if lines is None or size != len(content):
        raise RunError(_damage(path, place.start, place.end, fault or "its length is wrong"))
    return lines


Successors = Mapping[str, frozenset[str]]
"""Node to the nodes that may follow it."""


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

    def told(self, id_: str) -> Line:
        decision = self.decision or {}
        return {
            "execution": id_,
            "node": self.name,
            "seconds": None if self.seconds is None else round(self.seconds, 4),
            "because": decision.get("because", ""),
            "flags": decision.get("flags", []),
            "error": self.error,
        }


@dataclass(slots=True)
class CaseTrace:
    """Collects the node executions of one case. Times are seconds since the case began."""

    case_id: str
    successors: Successors
    started_at: float = field(default_factory=time.time)
    _begin: float = field(default_factory=time.perf_counter)
    _executions: dict[str, _Execution] = field(default_factory=dict)

    def record(self, task: Mapping[str, Any], superstep: int) -> Line:
        """Handle the start or end of a node from the stream mode `tasks`.

        Returns:
            The execution so far, for watchers; `seconds` is None until it ends.
        """
        now = time.perf_counter() - self._begin
        if "result" not in task:
            reads = sorted(task["input"]) if isinstance(task["input"], dict) else []
            begun = self._executions[task["id"]] = _Execution(task["name"], superstep, reads, started=now)
            return begun.told(task["id"])
        execution = self._executions[task["id"]]
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
        return execution.told(task["id"])

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def lines(self, failure: NodeFailure | None) -> list[Line]:
        """Trace lines in order of start; the calls of a failed node come from its failure."""
        executions = list(self._executions.values())
        return [self._line(step, executions, failure) for step in range(len(executions))]

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
        elif execution.error is not None:
            line["because"] = f"failed: {execution.error}"
            # Several nodes of one superstep may have failed; the calls are of one of them.
            if failure is not None and execution.error.endswith(str(failure)):
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
    """Steps that had written a key of the state before it was read.

    Values handed over by a fan-out have no writer.
    """
    return [
        step for step, one in enumerate(executions) if key in one.writes and one.superstep < reader.superstep
    ]
