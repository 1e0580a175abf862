"""The key of a run: what the user gives, or what the run was made with."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from cases.errors import InputError
from cases.load import find_cases, sort_keys
from cases.records import Case
from evals.scoring.gold import GoldCase, gold_of_case, read_gold
from runs.folder import RunFolder


def gold_of_run(
    run: RunFolder, keys: Sequence[Path] = (), case_files: Sequence[Path] = ()
) -> dict[str, GoldCase]:
    """What is known of the run's cases, by case id, in input order.

    Without the run's case files, as where they have moved, a key alone still labels sentences.

    Args:
        run: The run; its own case files and keys are read where they were.
        keys: Key files instead of those.
        case_files: Case files instead of those.

    Raises:
        InputError: A file cannot be read, or a given key belongs to other cases.
    """
    inputs = run.manifest.inputs
    keys, case_files = sort_keys(keys, case_files)
    known = list(keys) or [Path(key) for key in inputs.keys]
    try:
        source = find_cases(list(case_files) or [Path(path) for path in inputs.paths], known)
    except InputError:
        if case_files or not known:
            raise
        found = read_gold(known, [])
        return {case_id: case for case_id, case in found.items() if run.manifest.covers(case_id)}
    if keys:
        source.check()
    return {
        case.id: gold_of_case(case)
        for case in islice(source, inputs.limit)
        if isinstance(case, Case) and run.manifest.covers(case.id)
    }
