"""All texts and replies of cases taken out of a run's folder, and a search that none is left.

What stays are numbers, ids and labels. The folder says from the first step on that it is being purged, and
each step can be done again: a purge that was broken off is finished by the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases.errors import InputError
from cases.private import replacing
from cases.records import Case
from graph.system import find_system
from runs.audit import AUDIT, record
from runs.away import away_batches
from runs.byte_search import Runs, contents
from runs.check import DAMAGED
from runs.folder import CALLS, CASES, COPY, MANIFEST, Line, RunFolder, locked, write_manifest
from runs.forks import forks
from runs.index import INDEX
from runs.manifest import RunError, recorded_cases, utc_now
from runs.purged import PURGED, Purged, purged_of, write_purged
from runs.reviewers import ASSIGNMENTS
from runs.reviews import REVIEWS, Review, fingerprint
from runs.sealed import seal_line
from runs.trace_file import TRACE, TraceFile, pack
from runs.without_text import line_without_text, step_without_text
from serving.journal_purge import purge_calls, texts_of_calls

_OWN = (CALLS, f"{CALLS}.count", CASES, COPY, MANIFEST, TRACE, REVIEWS, PURGED, AUDIT, ASSIGNMENTS, ".lock")
_ALWAYS_REMOVED = (INDEX, f"{INDEX}-journal", DAMAGED, "frames")
"""Made of the other files, copies of them, or exports that cannot be searched."""
_REMOVED_TEXT = "(purged)"
_LABELS = ("essential", "not-essential", "supplementary", "not-relevant", "done", "failed", "waiting")

Report = Callable[[str], None]


@dataclass(slots=True)
class Purge:
    """What was removed, and what the search found.

    Attributes:
        cases: Number of cases.
        calls: Of the journal, with those of forks.
        texts: Of the journal that no other call has.
        lines: Of `cases.jsonl` that held text.
        reviews: With an answer or a comment.
        forks: Forks of these cases.
        files: Removed ones, relative to the run.
        size: Bytes of the folder before and after.
        searched: Files, with the bytes of what they hold.
        runs: Runs of 12 characters that were looked for.
        common: Those that were not, as they stand in texts that stay too.
        found: File to the number of runs found in it; empty if none was.
        outside: Files with texts of these cases that lie elsewhere and were not touched.
    """

    cases: int = 0
    calls: int = 0
    texts: int = 0
    lines: int = 0
    reviews: int = 0
    forks: int = 0
    files: list[str] = field(default_factory=list)
    size: tuple[int, int] = (0, 0)
    searched: tuple[int, int] = (0, 0)
    runs: int = 0
    common: int = 0
    found: dict[str, int] = field(default_factory=dict)
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

    Args:
        run: The run.
        case_ids: As `plan` says.
        scores: What is kept of its scores, as JSON.
        report: Called with a line about each step.

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
        report("reading the texts")
        wanted = _runs(run, ids, whole=purged.whole)
        write_purged(path, purged)
        made = Purge(cases=len(ids), runs=len(wanted), common=wanted.common)
        _purge_folder(run, ids, purged, made, report)
        _remove_others(path, wanted, made)
        report("searching all files")
        made.found, made.searched = search(path, wanted)
        if not made.found:
            purged.complete = True
            write_purged(path, purged)
        record(path, "purged", cases=[*case_ids], left=sum(made.found.values()))
        made.size = (before, _size(path))
    journal = (path / CALLS).resolve()
    made.outside = [*run.manifest.inputs.paths, *run.manifest.inputs.keys]
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
        calls, texts = purge_calls(path / CALLS, None if purged.whole and not _shared(path) else ids)
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


def _shared(path: Path) -> bool:
    return (path / CALLS).is_symlink()


def _lines(run: RunFolder, ids: Collection[str], made: Purge) -> Iterator[bytes]:
    """Lines of cases as they were, or without texts; torn ones are left out."""
    for one in run.case_lines():
        if one.line is None:
            raise RunError(f"{run.path / CASES}: line {one.number}: {one.fault}")
        line = one.line
        if line["case_id"] in ids:
            line = line_without_text(line, run.manifest.system)
            made.lines += line != one.line
        yield seal_line(json.dumps(line, ensure_ascii=False).encode(errors="replace")) + b"\n"


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
    """Ids, labels and numbers: what the program says of a reply stands in the next prompt too."""
    if isinstance(value, str):
        return "" if " " in value else value
    if isinstance(value, dict):
        return {name: _without_sentences(one) for name, one in value.items()}
    return [_without_sentences(one) for one in value] if isinstance(value, list) else value


def _reviews(run: RunFolder, ids: Collection[str], made: Purge) -> Iterator[bytes]:
    path = run.path / REVIEWS
    if not path.exists():
        return
    lines = {line["case_id"]: line for line in run.cases()}
    for raw in path.read_bytes().splitlines(keepends=True):
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
    if not path.exists():
        return
    with replacing(path) as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())


def _remove_others(path: Path, wanted: Runs, made: Purge) -> None:
    """Files that are not of the run, such as exports and reports: removed where they hold a text, or may."""
    for one in _files(path):
        owner = one.parent == path or (one / MANIFEST).exists() or (one.parent / MANIFEST).exists()
        if owner and (one.name in _OWN or one.name.startswith(".lock")):
            continue
        if one.suffix in (".parquet", ".tmp", ".eval") or _found(one, wanted)[0]:
            _remove(path, one, made)


def _remove(path: Path, one: Path, made: Purge) -> None:
    if one.is_dir() and not one.is_symlink():
        shutil.rmtree(one)
    elif one.exists() or one.is_symlink():
        one.unlink()
    else:
        return
    if not one.name.startswith(INDEX):
        made.files.append(str(one.relative_to(path)) if one.is_relative_to(path) else one.name)


def search(path: Path, wanted: Runs) -> tuple[dict[str, int], tuple[int, int]]:
    """Look for runs of 12 characters in every file below a folder; a shared journal belongs to it.

    Returns:
        File to how often one was found, and the number of files with the bytes that were looked at.
    """
    found: dict[str, int] = {}
    files = searched = 0
    for one in _files(path):
        count, size = _found(one, wanted)
        files, searched = files + 1, searched + size
        if count:
            found[str(one.relative_to(path))] = count
    return found, (files, searched)


def _found(path: Path, wanted: Runs) -> tuple[int, int]:
    count = size = 0
    for content in contents(path):
        count += wanted.places(content)
        size += len(content)
    return count, size


def _files(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file())


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in _files(path))


def _input_ids(run: RunFolder) -> list[str]:
    return [case.id for case in _cases(run)]


def _cases(run: RunFolder) -> Iterator[Case]:
    """As the case files have them now; none where those are gone."""
    with contextlib.suppress(InputError):
        yield from recorded_cases(run.manifest)


def _runs(run: RunFolder, ids: Collection[str], *, whole: bool) -> Runs:
    """What must not be found: texts of the cases, what the run made of them, its prompts and replies."""
    texts: list[str] = []
    known = [*_vocabulary(run), *ids]
    for case in _cases(run):
        (texts if case.id in ids else known).extend(_texts_of(case))
        known += [sentence.id for sentence in case.sentences] if case.id in ids else []
    prose: list[str] = []
    for folder in [run, *forks(run)]:
        for line in folder.cases():
            stripped = line_without_text(line, folder.manifest.system)
            own = [text for name in line if stripped[name] != line[name] for text in _strings(line[name])]
            (prose if line["case_id"] in ids else known).extend(own)
        journal = folder.path / CALLS
        if journal.exists():
            prose += texts_of_calls(journal, ids)
            if not whole or _shared(folder.path):
                known += texts_of_calls(journal, ids, others=True)
        reviews = folder.path / REVIEWS
        if reviews.exists():
            for raw in reviews.read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    review = Review.model_validate_json(raw)
                    # Who reviewed, and when, stays.
                    known += [review.reviewer, review.reviewed_at]
                    (texts if review.case_id in ids else known).extend([review.answer or "", review.comment])
    return Runs(texts, prose, known)


def _texts_of(case: Case) -> list[str]:
    gold = case.gold
    return [
        case.narrative,
        case.question or "",
        *(sentence.text for sentence in case.sentences),
        *_strings([gold.answer, gold.exact_answer, gold.ideal_answers]),
    ]


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for one in value.values() for text in _strings(one)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in _strings(one)]
    return []


def _vocabulary(run: RunFolder) -> Iterator[str]:
    """Words of the program that a text may hold too, such as `supplementary`; each by itself."""
    system = find_system(run.manifest.system)
    yield from _LABELS
    yield from system.results
    for node in system.nodes:
        yield from (node.name, *node.facts)
    recorded = run.manifest.model_dump(mode="json", exclude={"sessions", "forked_from"})
    yield from _words(recorded)


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield str(name)
            yield from _words(one)
    elif isinstance(value, list):
        for one in value:
            yield from _words(one)
    elif isinstance(value, str):
        yield value
