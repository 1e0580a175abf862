"""Runs whose texts were removed: what `purged.json` says of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cases.texts import plural, quoted
from runs.record.manifest import RunError
from runs.record.sealed import Damaged, open_document, seal_document
from storage.private import replace_file

PURGED = "purged.json"


@dataclass(slots=True)
class Purged:
    """Record of a purge.

    Attributes:
        whole: Whether these are all cases of the run.
        complete: False from before the first text is removed until the last one is.
        scores: What `evigraph score --json` said before; empty where nothing could be scored.
    """

    at: str
    cases: list[str]
    whole: bool
    complete: bool = False
    scores: dict[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        what = "all cases" if self.whole else plural(len(self.cases), "case")
        unfinished = "" if self.complete else "; the purge was broken off, run it again"
        return f"the texts of {what} were purged at {self.at}{unfinished}"


def purged_of(run: Path) -> Purged | None:
    """Record of a run's purge; None without one.

    Raises:
        RunError: The file is damaged.
    """
    path = run / PURGED
    try:
        return Purged(**open_document(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (Damaged, TypeError) as error:
        raise RunError(f"{path}: {error}; purge the run again once it is moved away") from None


def write_purged(run: Path, purged: Purged) -> None:
    """Write the file in one step."""
    replace_file(run / PURGED, [seal_document(json.dumps(asdict(purged), indent=2).encode() + b"\n")])


def refuse_purged(run: Path, case_id: str | None = None) -> None:
    """Refuse to go on with a run whose texts are gone.

    With a `case_id`, only if this case was purged.

    Raises:
        RunError: They are.
    """
    purged = purged_of(run)
    if purged is not None and (case_id is None or case_id in purged.cases):
        raise RunError(
            f"{run}: {purged.words}; this command needs them. Its numbers: evigraph show {quoted(run)}"
        )
