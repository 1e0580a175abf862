"""All texts and replies of cases taken out of a run's folder.

What stays are numbers, ids and labels. The folder says from the first step on that it is being purged, and
each step can be done again: the next purge completes an interrupted one.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs.execute.watcher import PROGRESS
from runs.fork.forks import forks
from runs.record.audit import AUDIT, SHARD_LOGS, read_audit, record
from runs.record.folder import (
    CALLS,
    CASES,
    COPY,
    MANIFEST,
    Line,
    RunFolder,
    locked,
    pack_line,
    write_manifest,
)
from runs.record.index import INDEX
from runs.record.manifest import RunError, recorded_cases, utc_now
from runs.record.purged import PURGED, Purged, purged_of, write_purged
from runs.record.trace_file import TRACE, TraceFile, pack
from runs.record.without_text import line_without_text, step_without_text
from runs.review.reviewers import ASSIGNMENTS
from runs.review.reviews import REVIEWS, Review, fingerprint
from runs.upkeep.away import away_batches
from runs.upkeep.check import DAMAGED
from serving.journal.purge import purge_calls
from storage.errors import InputError
from storage.private import replace_file

_OWN = (CALLS, f"{CALLS}.count", CASES, COPY, MANIFEST, TRACE, REVIEWS, PURGED, AUDIT, ASSIGNMENTS, PROGRESS)
_ALWAYS_REMOVED = (INDEX, f"{INDEX}-journal", DAMAGED, "frames")
"""Made of the other files, or copies of them."""
_EXPORTED = (".parquet", ".tmp", ".eval")
_REMOVED_TEXT = "(purged)"

Report = Callable[[str], None]


@dataclass(slots=True)
class Purge:
    """Removed and kept files.

    Attributes:
        calls: Of the journal, with those of forks.
        texts: Of the journal that no other call has.
        lines: Of `cases.jsonl` that held text.
        reviews: With an answer or a comment.
        files: Removed ones, relative to the run.
        size: Bytes of the folder before and after.
        outside: Files that may hold texts of these cases and were not touched.
    """

    cases: int = 0
    calls: int = 0
    texts: int = 0
    lines: int = 0
    reviews: int = 0
    forks: int = 0
    files: list[str] = field(default_factory=list)
    size: tuple[int, int] = (0, 0)
    outside: list[str] = field(default_factory=list)


def plan(run: RunFolder, case_ids: Sequence[str]) -> list[str]:
    """The cases that a purge is of: those that are named, or all.

    Raises:
        RunError: One of them is not of this run.
    """
    known = [*dict.fromkeys([*run.statuses(), *_input_ids(run)])]
    if not case_ids:
        return known
    for case_id in case_ids:
        if case_id not in known:
            run.require_case(case_id)
    return [*dict.fromkeys(case_ids)]


def purge(
    run: RunFolder, case_ids: Sequence[str], scores: dict[str, Any], report: Report = lambda _: None
) -> Purge:
    """Remove the texts and replies of cases.

    `case_ids` are as `plan` says; `scores` are kept, as JSON.

    Raises:
        RunError: Another process writes the run, or a file of it is damaged.
        JournalError: Another process uses the journal.
        OSError: A file cannot be written.
    """
    path = run.path
    whole = not set(_input_ids(run)) - set(case_ids) and not run.statuses().keys() - set(case_ids)
    with locked(path):
        before = _size(path)
        away = away_batches(path)
        earlier = purged_of(path)
        purged = Purged(utc_now(), [*case_ids], whole, scores=scores)
        if earlier is not None:
            purged.cases = [*dict.fromkeys([*earlier.cases, *case_ids])]
            purged.whole, purged.scores = whole or earlier.whole, earlier.scores
        ids = set(purged.cases)
        write_purged(path, purged)
        made = Purge(cases=len(ids))
        _purge_folder(run, ids, purged, made, report)
        _remove_exports(path, made)
        purged.complete = True
        write_purged(path, purged)
        record(path, "purged", cases=[*case_ids], files=made.files)
        made.size = (before, _size(path))
    journal = (path / CALLS).resolve()
    made.outside += [*run.manifest.inputs.paths, *run.manifest.inputs.keys]
    made.outside += [f"batch {one.id or 'of unknown id'} at {one.endpoint}" for one in away.batches]
    if journal.parent != path.resolve():
        made.outside.append(f"{journal} (shared: other runs have lost these calls)")
    return made


def _purge_folder(run: RunFolder, ids: Collection[str], purged: Purged, made: Purge, report: Report) -> None:
    path = run.path
    for name in _ALWAYS_REMOVED:
        _remove(path, path / name, made)
    report("purging the journal")
    if (path / CALLS).exists():
        every = purged.whole and not (path / CALLS).is_symlink()
        calls, texts = purge_calls(path / CALLS, None if every else ids)
        made.calls, made.texts = made.calls + calls, made.texts + texts
    report("purging cases, trace and reviews")
    _rewrite(path / CASES, _lines(run, ids, made))
    _rewrite(path / TRACE, _passes(run, ids))
    _rewrite(path / REVIEWS, _reviews(run, ids, made))
    for session in run.manifest.sessions:
        # It may quote a server, which may quote a prompt.
        if purged.whole and session.stopped_by:
            session.stopped_by = _REMOVED_TEXT
    write_manifest(path, run.manifest)
    for fork in forks(run):
        if fork.manifest.forked_from is not None and fork.manifest.forked_from.case_id in ids:
            write_purged(
                fork.path, Purged(purged.at, [fork.manifest.forked_from.case_id], True, complete=True)
            )
            _purge_folder(fork, ids, purged, made, lambda _: None)
            made.forks += 1


def _lines(run: RunFolder, ids: Collection[str], made: Purge) -> Iterator[bytes]:
    """Lines of cases as they were, or without texts; torn ones are left out."""
    for one in run.case_lines():
        if one.line is None:
            raise RunError(f"{run.path / CASES}: line {one.number}: {one.fault}")
        line = one.line
        if line["case_id"] in ids:
            line = line_without_text(line, run.manifest.system)
            made.lines += line != one.line
        yield pack_line(line)


def _passes(run: RunFolder, ids: Collection[str]) -> Iterator[bytes]:
    for lines in TraceFile(run.path).passes():
        if lines[0]["case_id"] in ids:
            yield pack([_stripped(line) for line in lines])
        else:
            yield pack(lines)


def _stripped(step: Line) -> Line:
    """A step without reasons, sentences and keys: a key is a hash of its prompt, and facts have numbers."""
    step = step_without_text(step)
    if step["node"] == "__end__":
        return step
    facts = {name: _without_sentences(value) for name, value in step["facts"].items()}
    return {**step, "because": "", "facts": facts, "calls": [{**call, "key": ""} for call in step["calls"]]}


def _without_sentences(value: Any) -> Any:
    """Keep ids, labels and numbers: the program's messages on a reply are also in the next prompt."""
    if isinstance(value, str):
        return "" if " " in value else value
    if isinstance(value, dict):
        return {name: _without_sentences(one) for name, one in value.items()}
    return [_without_sentences(one) for one in value] if isinstance(value, list) else value


def _reviews(run: RunFolder, ids: Collection[str], made: Purge) -> Iterator[bytes]:
    lines = {line["case_id"]: line for line in run.cases()}
    for raw in (run.path / REVIEWS).read_bytes().splitlines(keepends=True):
        if not raw.endswith(b"\n"):
            return
        review = Review.model_validate_json(raw)
        if review.case_id in ids and (review.answer is not None or review.comment):
            made.reviews += 1
            changes: dict[str, Any] = {"answer": None, "verdict": None, "comment": _REMOVED_TEXT}
            if review.case_id in lines:
                changes["shown"] = fingerprint(line_without_text(lines[review.case_id], run.manifest.system))
            raw = (review.model_copy(update=changes).model_dump_json() + "\n").encode()
        yield raw


def _rewrite(path: Path, content: Iterator[bytes]) -> None:
    if path.exists():
        replace_file(path, content)


def _remove_exports(path: Path, made: Purge) -> None:
    """Remove what Evigraph has exported into the folder; other files that are not of the run are named."""
    targets = (line.fields.get("to") for line in read_audit(path) if line.fields is not None)
    exported = {Path(to).name for to in targets if isinstance(to, str)}
    for one in _files(path):
        if not one.exists():
            continue
        parts = one.relative_to(path).parts
        owner = one.parent == path or (one.parent / MANIFEST).exists()
        if (owner and (one.name in _OWN or one.name.startswith("."))) or SHARD_LOGS in parts:
            continue
        if named := exported.intersection(parts):
            place = next(number for number, part in enumerate(parts) if part in named)
            _remove(path, path.joinpath(*parts[: place + 1]), made)
        elif one.suffix in _EXPORTED:
            _remove(path, one, made)
        else:
            made.outside.append(f"{one} (not of the run)")


def _remove(path: Path, one: Path, made: Purge) -> None:
    if one.is_dir() and not one.is_symlink():
        shutil.rmtree(one)
    elif one.exists() or one.is_symlink():
        one.unlink()
    else:
        return
    if not one.name.startswith(INDEX):
        made.files.append(str(one.relative_to(path)) if one.is_relative_to(path) else one.name)


def _files(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file())


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in _files(path))


def _input_ids(run: RunFolder) -> list[str]:
    """As the case files have them now; none if those are gone."""
    with contextlib.suppress(InputError):
        return [case.id for case in recorded_cases(run.manifest)]
    return []
