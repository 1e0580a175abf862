"""Forks of a case beside it: from which node, with what change, and where they are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runs.folder import RunFolder
from runs.forks import forks
from runs.manifest import ForkedFrom
from viewer.addresses import Addresses

NameOf = Callable[[Path], str | None]
"""The name under which a run folder is shown; None where it is not."""


@dataclass(frozen=True, slots=True)
class ForkLink:
    """A fork of a case, or the run that a fork was made of.

    Attributes:
        name: Of the other run.
        node: From which the fork ran again.
        step: Its number in the trace.
        changes: What the fork does otherwise, in words.
        address: The case in the other run.
        compare: What differs; None where no page compares.
    """

    name: str
    node: str
    step: int
    changes: tuple[str, ...]
    address: str
    compare: str | None


def forks_of(
    run: RunFolder, name: str, case_id: str, name_of: NameOf, addresses: Addresses
) -> list[ForkLink]:
    """The forks of a case that are shown too, the oldest first."""
    found = []
    for fork in forks(run):
        made, fork_name = fork.manifest.forked_from, name_of(fork.path)
        if made is not None and made.case_id == case_id and fork_name is not None:
            compare = addresses.compare_case(name, fork_name, case_id)
            found.append(_link(fork_name, made, addresses.case(fork_name, case_id), compare))
    return found


def origin_of(run: RunFolder, name: str, name_of: NameOf, addresses: Addresses) -> ForkLink | None:
    """The run that a fork was made of; None for a run that is no fork, or whose origin is not shown."""
    made = run.manifest.forked_from
    # The run folder stands two above its forks, wherever both were moved to.
    origin = None if made is None else name_of(run.path.resolve().parents[1])
    if made is None or origin is None:
        return None
    compare = addresses.compare_case(origin, name, made.case_id)
    return _link(origin, made, addresses.case(origin, made.case_id), compare)


def _link(name: str, made: ForkedFrom, address: str, compare: str | None) -> ForkLink:
    changes = tuple(f"{what}: {before} → {after}" for what, (before, after) in made.changes.items())
    return ForkLink(name, made.node, made.step, changes, address, compare)
