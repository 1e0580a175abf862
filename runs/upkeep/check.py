"""Check of a run's files for damage, and repair that keeps the intact part.

Each file is compared with its own checksums and with the others' records of the same cases: a file truncated
at the end of a line looks intact by itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from graph.system import find_system
from runs.record.audit import record_if_possible
from runs.record.folder import (
    CALLS,
    CASES,
    COPY,
    MANIFEST,
    RunFolder,
    RunWriter,
    locked,
    status_of,
    write_manifest,
)
from runs.record.index import INDEX
from runs.record.manifest import Counts, Manifest, RunError, repair_hint
from runs.record.trace_file import TRACE, Line, TraceFile, pack
from serving.journal.journal import CallCount, Journal, JournalError
from serving.journal.repair import look, repair
from storage.private import replace_file

DAMAGED = "damaged"
"""Folder below the run that gets the files as they were before a repair."""

_NAMED = 5


@dataclass(slots=True)
class Check:
    """Result of a check.

    Attributes:
        faults: Each in words, with file and place; empty where the run is whole.
        statuses: Of the ended cases whose line and trace are whole; failed ones with their class.
        lost_cases: Ids of those that ended and whose line or trace is not; a resume runs them again.
        calls: Whole calls of the journal.
        lost_calls: Those that have to be paid for again.
        unlisted_from: Byte of the trace where a last pass begins whose line a kill has prevented; None
            where there is none.
    """

    faults: list[str] = field(default_factory=list)
    statuses: dict[str, str] = field(default_factory=dict)
    lost_cases: list[str] = field(default_factory=list)
    calls: int = 0
    lost_calls: int = 0
    unlisted_from: int | None = None


def demand_whole(run: RunWriter) -> None:
    """Check all files of a run before it continues: damage would change results or cost money.

    A last pass without its line is cut off: its case runs again.

    Raises:
        RunError: Names the first fault, and what to do.
    """
    found = check(run)
    if found.faults:
        more = f" (and {len(found.faults) - 1} more)" if found.faults[1:] else ""
        raise RunError(f"{found.faults[0]}{more}; {repair_hint(run.path)}")
    if found.unlisted_from is not None:
        run.cut_trace(found.unlisted_from)


def check(run: RunFolder) -> Check:
    """Look at all files of a run, and change nothing.

    Raises:
        JournalError: The journal is of another schema.
        OSError: A file cannot be read.
    """
    found = Check()
    path = run.path / CALLS
    journal = look(path)
    found.calls, found.lost_calls = journal.calls, journal.lost
    # An earlier version kept no count of the calls, so the trace has to say which there were.
    uncounted = journal.missing or not CallCount(path).exists()
    lines = _whole_lines(run, found)
    with _opened(path) if uncounted else nullcontext() as calls:
        ends = _ends_of_passes(run, found, calls, demanded=bool(uncounted and not journal.faults))
    _compare(run, lines, ends, found)
    found.faults += journal.faults
    return found


@contextmanager
def _opened(path: Path) -> Iterator[Journal | None]:
    """A journal to look replies up in; None where there is none, or its tables cannot be found."""
    try:
        journal = Journal(path, read_only=True) if path.exists() else None
    except JournalError:
        journal = None
    try:
        yield journal
    finally:
        if journal is not None:
            journal.close()


def _whole_lines(run: RunFolder, found: Check) -> dict[str, Line]:
    """The last complete line of each case, without long values."""
    lines: dict[str, Line] = {}
    end = 0
    for one in run.case_lines():
        if one.line is None:
            found.faults.append(f"{run.path / CASES}: line {one.number}: {one.fault}")
        else:
            lines[one.line["case_id"]] = {name: one.line[name] for name in ("status", "error")}
        end = one.number
    path = run.path / CASES
    if run.manifest.status == "finished" and path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                found.faults.append(f"{path}: line {end + 1} is cut off")
    return lines


def _ends_of_passes(
    run: RunFolder, found: Check, journal: Journal | None, *, demanded: bool
) -> dict[str, Line]:
    """The last line of the last whole pass of each case, in the order of writing.

    Replies that cases were built on are looked up in `journal`, if one is given. With `demanded`, a journal
    that is not there is damage.
    """
    ends: dict[str, Line] = {}
    missing: dict[str, int] = {}
    for one in TraceFile(run.path).members():
        if one.fault:
            place = f"from byte {one.start:,} to {one.end:,}"
            found.faults.append(f"{run.path / TRACE}: damaged {place}: {one.fault}")
        if one.lines is not None:
            case_id = one.lines[0]["case_id"]
            ends.pop(case_id, None)
            ends[case_id] = one.lines[-1]
            found.unlisted_from = one.start
            if (journal is not None or demanded) and (count := _not_stored(one.lines, journal)):
                missing[case_id] = missing.get(case_id, 0) + count
    if missing:
        lost = sum(missing.values())
        found.lost_calls = max(found.lost_calls, lost)
        found.faults.append(f"{run.path / CALLS}: {lost:,} replies of {_named([*missing])} are missing")
    return ends


def _not_stored(lines: Sequence[Line], journal: Journal | None) -> int:
    """How many replies a pass was built on that the journal does not have; purged ones have no key."""
    calls = [
        call for line in lines for call in line.get("calls", ()) if call["fault"] is None and call["key"]
    ]
    try:
        return sum(journal is None or not journal.has(call["key"]) for call in calls)
    except JournalError:
        # Damage has been reported.
        return 0


def _compare(run: RunFolder, lines: dict[str, Line], ends: dict[str, Line], found: Check) -> None:
    """Every line has a pass that ended the same, and every pass but one that was just written has a line."""
    # An earlier version began the file with the first case.
    traced = run.manifest.sealed or (run.path / TRACE).exists()
    ended = {id_: (end.get("status"), end.get("error")) for id_, end in ends.items()}
    untraced = [
        id_ for id_, line in lines.items() if traced and ended.get(id_) != (line["status"], line["error"])
    ]
    unlisted = [id_ for id_ in ends if id_ not in lines]
    # A kill may come between the two writes, once.
    last = next(reversed(ends), None) if run.manifest.status != "finished" else None
    if last in untraced or last in unlisted:
        untraced, unlisted = [[id_ for id_ in ids if id_ != last] for ids in (untraced, unlisted)]
    else:
        found.unlisted_from = None
    if untraced:
        found.faults.append(f"{run.path / TRACE}: the last pass of {_named(untraced)} is missing")
    if unlisted:
        found.faults.append(f"{run.path / CASES}: the line of {_named(unlisted)} is missing")
    found.lost_cases = [*untraced, *unlisted]
    lost = {*found.lost_cases}
    found.statuses = {id_: status_of(line) for id_, line in lines.items() if id_ not in lost}
    expected = run.manifest.counts.total
    missing = expected - len(found.statuses) - len(lost)
    if missing > 0:
        found.faults.append(f"{run.path / CASES}: {missing:,} of {expected:,} ended cases are missing")


def _named(case_ids: list[str]) -> str:
    rest = f" and {len(case_ids) - _NAMED:,} more" if len(case_ids) > _NAMED else ""
    return f"case{'s' if case_ids[1:] else ''} {', '.join(map(repr, case_ids[:_NAMED]))}{rest}"


@dataclass(frozen=True, slots=True)
class Repaired:
    """Result of a repair.

    Attributes:
        aside: Folder of the files as they were; None where nothing was damaged.
        resumable: Whether cases are left for a resume.
    """

    found: Check
    aside: Path | None
    resumable: bool = False


def repair_run(path: Path) -> Repaired:
    """Keep the intact part of a run, so that a resume reruns the rest on the replies in the journal.

    Raises:
        RunError: Another process is writing the run, or neither `run.json` nor its copy is whole.
        OSError: A file cannot be read or written.
    """
    if not (path / MANIFEST).exists() and not (path / COPY).exists():
        raise RunError(f"{path}: no run here ({MANIFEST} is missing)")
    with locked(path):
        aside = _next(path / DAMAGED)
        fault = _restore_manifest(path, aside)
        run = RunFolder(path)
        found = check(run)
        journal_faults = look(path / CALLS).faults
        if fault:
            found.faults.insert(0, fault)
        if not found.faults:
            return Repaired(found, None)
        aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        _rewrite(run.path / CASES, aside, _kept_lines(run, found))
        _rewrite(run.path / TRACE, aside, _kept_passes(run, {*found.lost_cases}))
        if journal_faults or found.lost_calls:
            repair(path / CALLS, aside / "journal")
        if found.lost_cases or len(found.statuses) < run.manifest.counts.total:
            run.manifest.status = "interrupted"
            # Lines that are counted and missing are damage.
            run.manifest.counts = Counts.of(found.statuses.values())
            run.manifest.counts.impaired = len(run.impaired(find_system(run.manifest.system).impairments))
            write_manifest(path, run.manifest)
        # It is derived from the other files, and rebuilt.
        (path / INDEX).unlink(missing_ok=True)
        record_if_possible(path, "repaired", faults=len(found.faults), aside=f"{DAMAGED}/{aside.name}")
    return Repaired(found, aside, run.manifest.status != "finished" and run.manifest.forked_from is None)


def _restore_manifest(path: Path, aside: Path) -> str:
    """Restore `run.json` from its copy if damaged; returns the fault, empty if none."""
    try:
        RunFolder(path)
    except RunError as error:
        fault = str(error).partition("; keep the intact")[0]
    else:
        return ""
    try:
        manifest: Manifest = RunFolder(path, manifest=COPY).manifest
    except RunError:
        raise RunError(f"{fault}; its copy {COPY} is not whole either: put one of them back") from None
    aside.mkdir(mode=0o700, parents=True)
    if (path / MANIFEST).exists():
        # Under another name: a folder that holds `run.json` is listed as a run.
        (path / MANIFEST).rename(aside / f"{MANIFEST}.damaged")
    write_manifest(path, manifest)
    return fault


def _kept_lines(run: RunFolder, found: Check) -> Iterator[bytes]:
    with (run.path / CASES).open("rb") as file:
        for one in run.case_lines():
            if one.line is not None and one.line["case_id"] in found.statuses:
                file.seek(one.start)
                yield file.readline()


def _kept_passes(run: RunFolder, lost: set[str]) -> Iterator[bytes]:
    """All but those of cases that run again: their lines are gone, and a pass without a line is damage."""
    with (run.path / TRACE).open("rb") as file:
        for one in TraceFile(run.path).members():
            if one.lines is not None and one.lines[0]["case_id"] not in lost:
                file.seek(one.start)
                yield pack(one.lines) if one.fault else file.read(one.end - one.start)


def _rewrite(path: Path, aside: Path, content: Iterator[bytes]) -> None:
    """Replace a file by its intact part; the original is moved aside."""
    if not path.exists():
        path.touch(mode=0o600)
        return
    shutil.copy2(path, aside / path.name)
    replace_file(path, content)


def _next(folder: Path) -> Path:
    taken = [int(one.name) for one in folder.glob("*") if one.name.isdecimal()] if folder.is_dir() else []
    return folder / str(max(taken, default=0) + 1)
