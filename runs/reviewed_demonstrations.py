"""A pool of demonstrations that knows what people have reviewed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cases.records import Case
from graph.note_resources import open_pool
from retrieval.demonstrations import MANIFEST, REVIEWED, build_pool
from retrieval.embeddings import connect_embedder
from runs.assemble import Report
from runs.folder import RunFolder
from runs.manifest import RunError
from runs.reviewed_gold import reviewed_cases


@dataclass(frozen=True, slots=True)
class Added:
    """What came of adding.

    Attributes:
        count: Demonstrations in the new pool.
        reviewed: Those of them whose gold comes from reviews.
        replaced: Ids of cases that the old pool had with other labels or answers.
    """

    count: int
    reviewed: int
    replaced: tuple[str, ...]


async def add_reviewed(
    pool: Path | None, runs: Sequence[Path], folder: Path, *, embedding: str, report: Report
) -> Added:
    """Build a new pool of an old one and the reviewed cases of runs.

    Where a case is in several, the last run counts. A pool excludes from its answers the case that asks, by
    id and by text, so a reviewed case is no demonstration of itself.

    Args:
        pool: The old pool's folder; None for the packaged sample pool.
        runs: Run folders with reviews.
        folder: Of the new pool.
        embedding: What the old pool was embedded with.
        report: Told of what takes long, and of reviews on earlier results.

    Raises:
        RunError: A run has no reviews, or the new folder holds a pool: runs may refer to it.
        InputError: A case file of a run cannot be read.
        ModelError: The embedding, the old pool or the folder.
    """
    if (folder / MANIFEST).exists():
        raise RunError(f"{folder}: a pool is there already, and runs may refer to it; choose another folder")
    new: dict[str, Case] = {}
    for path in runs:
        found = reviewed_cases(RunFolder(path))
        new |= {case.id: case for case in found.cases}
        if found.stale:
            report(f"{path}: {len(found.stale)} cases were reviewed on an earlier result of the run")
    old = await open_pool(pool, embedding, report)
    known = {one.case_id: one.source for one in old.neighbours()}
    cases = {case_id: old.case(case_id) for case_id in known} | new
    reviewed = new.keys() | {case_id for case_id, source in known.items() if source == REVIEWED}
    count = await build_pool(folder, cases.values(), connect_embedder(embedding), reviewed=reviewed)
    return Added(count, len(reviewed), tuple(sorted(known.keys() & new.keys())))
