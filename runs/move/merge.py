"""Merge of shards into the run that one machine would have written; an error names the faulty shard.

Of a case only its id, its status and the place of its line are held in memory: lines go from file to file in
the order of the input, passes of the trace are copied unchanged, and the journal is written in the order of
its keys.
"""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cases.selection import Shard, shard_index
from cases.texts import plural, quoted
from graph.system import find_system
from runs.record.audit import AUDIT, SHARD_LOGS, record, sent_by
from runs.record.folder import (
    CALLS,
    CASES,
    MANIFEST,
    RunFolder,
    is_impaired,
    locked,
    status_of,
    write_manifest,
)
from runs.record.manifest import (
    MERGED,
    BudgetCaps,
    Counts,
    Manifest,
    RunError,
    differences,
    recorded_source,
    repair_hint,
)
from runs.record.publishing import built_beside, copy_bytes, demand_free, flush
from runs.record.purged import refuse_purged
from runs.record.trace_file import TRACE, TraceFile
from runs.review.reviewers import ASSIGNMENTS
from runs.review.reviews import REVIEWS
from runs.upkeep.check import check
from serving.journal.merge import MergedJournal
from serving.policy.traffic import Traffic
from storage.disks import writable
from storage.files import allow_files

_FILES_A_SHARD = 4
_FILES = 64
_NAMED = 10
_STEP = 1000

Report = Callable[[str], None]
Step = Callable[[str, int, int], None]
"""Called with the current task, its completed amount, and its total."""


def merge(
    paths: Sequence[Path], out: Path, report: Report, step: Step, *, allow_incomplete: bool = False
) -> RunFolder:
    """Make one run of its shards, which stay as they are.

    It is built next to `out` and moved there once complete, so a kill leaves nothing there.

    With `allow_incomplete`, shards that have not ended are taken too, and missing ones done without; a resume
    of the new run runs their cases.

    Raises:
        RunError: A shard is missing, is there twice, has not ended, or is of another run; or `out` holds
            something already.
        InputError: The case files have moved.
        JournalError: A journal is damaged.
        OSError: A file cannot be read or written.
    """
    demand_free(out)
    allow_files(_FILES_A_SHARD * len(paths) + _FILES)
    with contextlib.ExitStack() as stack:
        for path in dict.fromkeys(path.resolve() for path in paths):
            # What nobody can write needs no lock.
            if path.is_dir() and writable(path) and (path / MANIFEST).is_file():
                stack.enter_context(locked(path))
        shards = _checked(paths, allow_incomplete=allow_incomplete, report=report)
        build = stack.enter_context(built_beside(out, "merging"))
        manifest = _manifest(shards, report)
        _merge_lines(shards, manifest, build, step)
        _merge_journals(shards, build, report, step)
        _merge_traces(shards, build, step)
        for name in (REVIEWS, ASSIGNMENTS):
            _join(build / name, [shard.run.path / name for shard in shards])
        write_manifest(build, manifest)
        _keep_audits(shards, build)
    return RunFolder(out)


@dataclass(frozen=True, slots=True)
class _Shard:
    run: RunFolder
    part: Shard

    @property
    def finished(self) -> bool:
        return self.run.manifest.status == "finished"

    @property
    def lines(self) -> IO[bytes]:
        # A kill may come before the first file but the manifest.
        path = self.run.path / CASES
        return path.open("rb") if path.exists() else io.BytesIO()


def _checked(paths: Sequence[Path], *, allow_incomplete: bool, report: Report) -> list[_Shard]:
    """The shards by number.

    Raises:
        RunError: They are not all shards of one run.
    """
    found: dict[int, _Shard] = {}
    first: _Shard | None = None
    for path in paths:
        shard = _opened(path)
        first = first or shard
        if shard.part.count != first.part.count:
            raise RunError(
                f"{path}: is shard {shard.part}, and {first.run.path} is shard {first.part}: they are of"
                " different numbers of shards"
            )
        if (twin := found.get(shard.part.index)) is not None:
            raise RunError(f"shard {shard.part} is there twice: {twin.run.path} and {path}; leave one out")
        _refuse_foreign(shard, first)
        found[shard.part.index] = shard
        if not shard.finished and not allow_incomplete:
            manifest = shard.run.manifest
            raise RunError(
                f"{path}: shard {shard.part} has not ended ({manifest.status},"
                f" {len(shard.run.statuses()):,} of {plural(manifest.inputs.cases, 'case')}); go on with it:"
                f" evigraph resume {quoted(path)}, or merge what there is: --allow-incomplete"
            )
    assert first is not None
    missing = [index for index in range(first.part.count) if index not in found]
    if missing:
        named = ", ".join(str(Shard(index, first.part.count)) for index in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED:,} more" if missing[_NAMED:] else ""
        words = f"shards {named}{more} are missing" if missing[1:] else f"shard {named} is missing"
        if not allow_incomplete:
            raise RunError(f"{words}; name all folders, or merge what there is: --allow-incomplete")
        report(words)
    return [found[index] for index in sorted(found)]


def _opened(path: Path) -> _Shard:
    run = RunFolder(path)
    part = run.manifest.inputs.shard
    if run.manifest.forked_from is not None or part is None:
        raise RunError(f"{path}: is not a shard; make shards with: evigraph run ... --shard I/N")
    refuse_purged(path)
    return _Shard(run, part)


def _refuse_foreign(shard: _Shard, first: _Shard) -> None:
    """Whatever shapes results is the same in all shards.

    Raises:
        RunError: Names the shard and its difference.
    """
    one, other = first.run.manifest, shard.run.manifest
    pairs = [
        ("recipe", one.recipe_sha256, other.recipe_sha256),
        ("policy", [held.sha256 for held in one.policies], [held.sha256 for held in other.policies]),
    ]
    found = [name for name, before, after in pairs if before != after]
    compared = find_system(one.system).compared
    found += [name for name in differences(one, other, compared) if name != "shard"]
    if found:
        raise RunError(
            f"{shard.run.path}: is a shard of another run than {first.run.path}: it differs in"
            f" {', '.join(found)}"
        )


def _manifest(shards: Sequence[_Shard], report: Report) -> Manifest:
    """Manifest that one machine would have recorded, with all shards' sessions in order of start."""
    first = shards[0].run.manifest
    manifests = [shard.run.manifest for shard in shards]
    for name, values in (
        ("Evigraph", {one.evigraph for one in manifests}),
        ("packages", {tuple(sorted(one.versions.items())) for one in manifests}),
    ):
        if len(values) > 1:
            report(f"the shards were run with {len(values)} different versions of {name}")
    caps = [one.budget for one in manifests]
    tokens = [one.max_tokens for one in caps if one.max_tokens is not None]
    costs = [one.max_cost for one in caps if one.max_cost is not None]
    # Each shard has checked them before it began; here they are read once, for the order of their cases.
    if recorded_source(first).digest() != first.inputs.sha256:
        raise RunError(
            f"{shards[0].run.path}: the case files or keys have changed since the shards were run; put them"
            " back"
        )
    sessions = [session for one in manifests for session in one.sessions]
    names = [str(shard.run.path.resolve()) for shard in shards]
    record: dict[str, Any] = {
        "count": shards[0].part.count,
        "folders": names,
        # Those that follow are the run's own.
        "sessions": len(sessions),
    }
    return first.model_copy(
        update={
            "status": "finished"
            if len(shards) == shards[0].part.count and all(shard.finished for shard in shards)
            else "interrupted",
            "inputs": first.inputs.model_copy(update={"shard": None}),
            "resources": {**first.resources, MERGED: record},
            "counts": Counts(),
            "budget": BudgetCaps(
                # Each shard had its own.
                max_tokens=sum(tokens) if len(tokens) == len(shards) else None,
                max_cost=sum(costs) if len(costs) == len(shards) else None,
                prices={name: price for one in caps for name, price in one.prices.items()},
            ),
            "sessions": sorted(sessions, key=lambda session: session.started),
            "hosted": tuple(dict.fromkeys(host for one in manifests for host in one.hosted)),
            "sealed": True,
        }
    )


def _latest(shard: _Shard, flags: Collection[str]) -> dict[str, tuple[int, str, bool]]:
    """Where the last line of each case begins, its status, and whether it is impaired.

    Raises:
        RunError: A line is damaged.
    """
    found = {}
    for one in shard.run.case_lines():
        if one.line is None:
            raise shard.run.damaged(one.number, one.fault)
        found[one.line["case_id"]] = one.start, status_of(one.line), is_impaired(one.line, flags)
    return found


def _merge_lines(shards: Sequence[_Shard], manifest: Manifest, build: Path, step: Step) -> None:
    """Put `cases.jsonl` together in the order of the input, and count its cases.

    Raises:
        RunError: A finished shard lacks a case, or has one that is not its own.
    """
    totals: Counter[str] = Counter()
    impaired = cases = 0
    expected = sum(shard.run.manifest.inputs.cases for shard in shards)
    flags = find_system(manifest.system).impairments
    with contextlib.ExitStack() as stack, (build / CASES).open("wb") as target:
        parts = {
            shard.part.index: (shard, stack.enter_context(shard.lines), _latest(shard, flags))
            for shard in shards
        }
        count = shards[0].part.count
        for case in recorded_source(shards[0].run.manifest).unsharded:
            if cases % _STEP == 0:
                step("cases", totals.total(), expected)
            cases += 1
            part = parts.get(shard_index(case.id, count))
            if part is None:
                continue
            shard, lines, latest = part
            if case.id in latest:
                start, status, is_one = latest.pop(case.id)
                lines.seek(start)
                target.write(lines.readline())
                totals[status] += 1
                impaired += is_one
            elif shard.finished:
                raise RunError(
                    f"{shard.run.path / CASES}: the line of case {case.id!r} is missing; check the files:"
                    f" evigraph check {quoted(shard.run.path)}"
                )
        for shard, _, latest in parts.values():
            for foreign in latest:
                raise RunError(
                    f"{shard.run.path / CASES}: has case {foreign!r}, which is not of shard {shard.part} of"
                    " its case files"
                )
        flush(target)
    manifest.counts = Counts.of(totals, impaired)
    manifest.inputs.cases = cases


def _merge_journals(shards: Sequence[_Shard], build: Path, report: Report, step: Step) -> None:
    journal = MergedJournal(build / CALLS)
    for done, shard in enumerate(shards):
        step("journals", done, len(shards))
        if (shard.run.path / CALLS).exists():
            journal.add(shard.run.path / CALLS)
    journal.close()
    if journal.conflicts:
        report(
            f"{plural(journal.conflicts, 'call')} of several shards had different replies; the journal keeps"
            " the first, and all cases keep their results"
        )


def _merge_traces(shards: Sequence[_Shard], build: Path, step: Step) -> None:
    """Concatenate the passes; each is independent, so their bytes are unchanged."""
    with (build / TRACE).open("wb") as target:
        for done, shard in enumerate(shards):
            step("traces", done, len(shards))
            if size := _end_of_trace(shard):
                with (shard.run.path / TRACE).open("rb") as source:
                    copy_bytes(source, target, size)
        flush(target)


def _end_of_trace(shard: _Shard) -> int:
    """Length in bytes, without a torn end and without a last pass that lacks its line.

    Raises:
        RunError: A file of the shard is damaged.
    """
    end = max((place.end for place in TraceFile(shard.run.path).places()), default=0)
    if shard.finished:
        return end
    found = check(shard.run)
    if found.faults:
        raise RunError(f"{found.faults[0]}; {repair_hint(shard.run.path)}")
    return end if found.unlisted_from is None else found.unlisted_from


def _keep_audits(shards: Sequence[_Shard], build: Path) -> None:
    """Copy the logs of the shards, and begin the log of the run with what all of them sent."""
    folder = build / SHARD_LOGS
    folder.mkdir(mode=0o700)
    logs: list[str] = []
    hosts: dict[str, Traffic] = {}
    for shard in shards:
        log = shard.run.path / AUDIT
        if not log.exists():
            continue
        name = f"{shard.part.index:04}.jsonl"
        _join(folder / name, [log])
        logs.append(name)
        for host, traffic in sent_by(shard.run.path).items():
            hosts[host] = hosts.get(host, Traffic()).plus(traffic)
    folders = [str(shard.run.path.resolve()) for shard in shards]
    sent = {host: traffic._asdict() for host, traffic in sorted(hosts.items())}
    record(build, "merged", shards=folders, logs=logs, hosts=sent)


def _join(target: Path, sources: Sequence[Path]) -> None:
    """Files of lines one behind the other; none where there are none."""
    if not any(source.exists() for source in sources):
        return
    with target.open("wb") as file:
        for source in sources:
            if source.exists():
                content = source.read_bytes()
                file.write(content if not content or content.endswith(b"\n") else content + b"\n")
        flush(file)
