"""The cases that a recorded run was made of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cases.load import find_cases
from cases.records import Case
from runs.manifest import Manifest


def recorded_cases(manifest: Manifest) -> Iterator[Case]:
    """Streams the readable cases of a run from its input files, with their gold where a key is known.

    Raises:
        InputError: A file has moved or changed beyond reading.
    """
    source = find_cases(
        [Path(path) for path in manifest.inputs.paths], [Path(key) for key in manifest.inputs.keys]
    )
    for case in islice(source, manifest.inputs.limit):
        if isinstance(case, Case) and manifest.covers(case.id):
            yield case
