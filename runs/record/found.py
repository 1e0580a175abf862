"""Runs below a folder: found by path, as `last` or by a tag, with people's remarks."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from cases.texts import plural, quoted
from runs.record.folder import MANIFEST
from runs.record.manifest import RunError
from storage.private import replacing

ROOT = Path("out")
"""Default folder of runs without `--out`."""
LAST = "last"

_REMARKS = "remarks.json"
_DEPTH = 6


class Remarks(BaseModel):
    """Remarks of people on a run, which the run itself never reads."""

    model_config = ConfigDict(extra="forbid")

    tags: tuple[str, ...] = ()
    note: str = ""


def find_runs(roots: Iterable[Path]) -> Iterator[Path]:
    """Every run folder at or below the given ones, including forks and runs of experiments.

    Links to folders are not followed, and folders whose names begin with a dot are skipped.
    """
    for root in roots:
        for folder, below, files in os.walk(root):
            path = Path(folder)
            if MANIFEST in files:
                yield path
            depth = len(path.relative_to(root).parts)
            below[:] = sorted(name for name in below if not name.startswith(".")) if depth < _DEPTH else []


def own_runs(root: Path = ROOT) -> list[Path]:
    """The runs below a folder without the forks of others, by when they were last written, newest first."""
    runs = [path for path in find_runs([root]) if not (path.parent.parent / MANIFEST).is_file()]
    return sorted(runs, key=lambda path: ((path / MANIFEST).stat().st_mtime_ns, str(path)), reverse=True)


def named_run(name: str, root: Path = ROOT) -> Path:
    """The folder that a user means: a path, `last`, a tag, or the name of a folder below `root`.

    An existing path takes precedence. Anything else is returned as a path.

    Raises:
        RunError: No run was found, or several runs have the tag.
    """
    path = Path(name)
    if path.exists() or len(path.parts) != 1 or path.is_absolute():
        return path
    runs = own_runs(root)
    if name == LAST:
        if not runs:
            raise RunError(f"{root}: no run here or below, so `last` is undefined")
        return runs[0]
    tagged = [run for run in runs if name in read_remarks(run).tags]
    if len(tagged) > 1:
        named = ", ".join(str(run) for run in tagged)
        raise RunError(f"{name}: {plural(len(tagged), 'run')} have this tag: {named}")
    return next(iter(tagged or [run for run in runs if run.name == name]), path)


def read_remarks(run: Path) -> Remarks:
    """Remarks on a run; empty without any.

    Raises:
        RunError: The file cannot be read.
    """
    path = run / _REMARKS
    try:
        return Remarks.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return Remarks()
    except (OSError, ValueError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError(f"{path}: {reason}; correct it or remove it") from None


def write_remarks(run: Path, remarks: Remarks) -> None:
    """Write it in one step.

    Raises:
        RunError: It is not a run.
        OSError: It cannot be written.
    """
    if not (run / MANIFEST).is_file():
        near = difflib.get_close_matches(run.name, [one.name for one in own_runs()], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; see: evigraph runs"
        raise RunError(f"{quoted(run)}: no run here ({MANIFEST} is missing){hint}")
    with replacing(run / _REMARKS) as file:
        file.write(remarks.model_dump_json(indent=2).encode() + b"\n")
