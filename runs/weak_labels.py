"""The weak labels of a run as a key file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cases.archehr_key import read_archehr_key, write_archehr_key
from cases.errors import InputError
from cases.load import find_cases
from cases.records import Gold, Label
from graph.system import find_system, systems
from runs.folder import Line, RunFolder
from runs.manifest import RunError, recorded_cases

_SOURCE = "label_source"
"""The result of a run that says where its labels come from."""


@dataclass(frozen=True, slots=True)
class WeakKey:
    """What came of a run.

    Attributes:
        labelled: Cases in the key.
        nothing_essential: Ids of those of them without an essential sentence.
        left_alone: Ids of the cases that people had labelled already; they are not in the key.
        failed: Ids of the cases that failed.
        not_run: Cases that the run has not reached.
    """

    labelled: int
    nothing_essential: tuple[str, ...]
    left_alone: tuple[str, ...]
    failed: tuple[str, ...]
    not_run: int


def write_weak_key(run: RunFolder, path: Path) -> WeakKey:
    """Write every weakly labelled case with its clinician's answer; never a case that people labelled.

    Raises:
        RunError: The run is of another system, has labelled nothing, or its input has changed.
        InputError: The file holds anything but weak labels, or a case file cannot be read.
    """
    lines = _lines_of(run)
    weak = {case_id: line for case_id, line in lines.items() if line.get(_SOURCE) == "weak"}
    failed = tuple(case_id for case_id, line in lines.items() if line["status"] == "failed")
    if not weak:
        reason = f"{len(failed)} cases failed" if failed else "no case was without labels of people"
        raise RunError(f"{run.path}: no weak labels in this run: {reason}; see: evigraph show {run.path}")
    _refuse_other_keys(path)
    key = {
        case.id: _weak(case.gold, weak[case.id]) for case in recorded_cases(run.manifest) if case.id in weak
    }
    write_archehr_key(path, key)
    return WeakKey(
        labelled=len(key),
        nothing_essential=tuple(
            id_ for id_, gold in key.items() if "essential" not in (gold.labels or {}).values()
        ),
        left_alone=tuple(id_ for id_ in lines if id_ not in weak and id_ not in failed),
        failed=failed,
        not_run=run.manifest.inputs.cases - len(lines),
    )


def _lines_of(run: RunFolder) -> dict[str, Line]:
    manifest = run.manifest
    if _SOURCE not in find_system(manifest.system).results:
        makers = [name for name in systems() if _SOURCE in find_system(name).results]
        raise RunError(
            f"{run.path}: a run of {manifest.system!r} has no weak labels;"
            f" make some: evigraph run {makers[0]} CASES --model STRING"
        )
    inputs = manifest.inputs
    source = find_cases([Path(one) for one in inputs.paths], [Path(one) for one in inputs.keys])
    if source.check().sha256 != inputs.sha256:
        # Sentences may be others now, and people may have labelled some.
        raise RunError(f"{run.path}: its case files or keys have changed since; start a new run")
    return {line["case_id"]: line for line in run.cases()}


def _weak(gold: Gold, line: Line) -> Gold:
    labels: dict[str, Label] = {
        id_: "essential" if label == "essential" else "not-relevant" for id_, label in line["labels"].items()
    }
    return replace(gold, labels=labels, label_source="weak")


def _refuse_other_keys(path: Path) -> None:
    """A file of weak labels may be written anew; labels of people, and all else, must not be lost."""
    if not path.exists():
        return
    try:
        replaceable = all(gold.label_source == "weak" for gold in read_archehr_key(path).values())
    except InputError:
        replaceable = False
    if not replaceable:
        raise InputError(path, "exists, and holds more than weak labels", "Choose another name")
