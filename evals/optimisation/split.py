"""Labelled cases in two parts: one that the search sees, and one that it never sees."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cases.formats.plain_jsonl import write_jsonl
from cases.load import find_cases
from cases.records import Case
from cases.texts import plural
from evals.optimisation.errors import OptimisationError
from evals.scoring.gold import GoldCase, gold_of_case
from retrieval.pools.compared import fingerprint
from storage.errors import InputError
from storage.url_names import name_of

FEWEST = 4
"""Cases of each part. With fewer, one case decides, and an interval says nothing."""


@dataclass(frozen=True, slots=True)
class CaseFiles:
    """Case files with their keys; without keys, those beside the case files are taken."""

    cases: tuple[Path, ...]
    keys: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return ", ".join(map(name_of, self.cases))

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file of cases and every key.

        Raises:
            InputError: A path is missing.
        """
        source = find_cases(self.cases, self.keys)
        return (*source.paths, *source.keys)


@dataclass(frozen=True, slots=True)
class Part:
    """Cases of one part as a file that runs read, in an order drawn by the seed.

    The first cases of the search part are therefore a sample of it.
    """

    name: str
    path: Path
    cases: tuple[Case, ...]

    @property
    def gold(self) -> Mapping[str, GoldCase]:
        """What the key says, by case id."""
        return {case.id: gold_of_case(case) for case in self.cases}


@dataclass(frozen=True, slots=True)
class Split:
    """Both parts.

    Attributes:
        sha256: Of the files they were read from.
        left_out: Cases without labels or sentences, or that cannot be read.
        weak: Cases whose labels were made from a clinician's answer.
    """

    search: Part
    test: Part
    sha256: str
    left_out: int
    weak: int

    def write(self) -> None:
        """Write each part to its file.

        Raises:
            InputError: A file cannot be written.
        """
        for part in (self.search, self.test):
            part.path.parent.mkdir(parents=True, exist_ok=True)
            write_jsonl(part.path, part.cases)


def split_cases(files: CaseFiles, test: float | CaseFiles, seed: int, folder: Path) -> Split:
    """Read labelled cases and divide them.

    Cases with equal texts under several ids are in one part.

    Args:
        files: All cases, or those of the search where `test` names others.
        test: Share of the cases that the search never sees, or files of them.
        seed: Of the draw.
        folder: Of the files of the parts, which are not written yet.

    Raises:
        InputError: A file cannot be read or has no labels, or a case is in both parts.
        OptimisationError: There are too few cases.
    """
    given, sha256, left_out = _labelled(files, seed)
    if isinstance(test, CaseFiles):
        held_out, test_sha256, test_left_out = _labelled(test, seed)
        sha256, left_out = f"{sha256} {test_sha256}", left_out + test_left_out
        _demand_others(given, held_out, test)
        parts = (given, held_out)
    else:
        place = len(given) - round(test * len(given))
        while 0 < place < len(given) and fingerprint(given[place - 1]) == fingerprint(given[place]):
            place += 1
        parts = (given[:place], given[place:])
    for cases, name in zip(parts, ("search", "held-out"), strict=True):
        if len(cases) < FEWEST:
            raise OptimisationError(
                f"{files}: {len(given)} labelled cases leave {len(cases)} for the {name} part, which needs"
                f" {FEWEST}; give more cases, another share, or a file of its own: --test FILE"
            )
    search, unseen = (
        Part(name, folder / f"{name}.jsonl", tuple(cases))
        for name, cases in zip(("search", "test"), parts, strict=True)
    )
    weak = sum(case.gold.label_source == "weak" for case in (*search.cases, *unseen.cases))
    return Split(search, unseen, sha256, left_out, weak)


def _labelled(files: CaseFiles, seed: int) -> tuple[list[Case], str, int]:
    """The cases that can be scored, in drawn order; the digest of their files; how many others there are."""
    source = find_cases(files.cases, files.keys)
    summary = source.check()
    found = [case for case in source if isinstance(case, Case) and case.sentences and case.gold.labels]
    total = summary.cases + summary.invalid
    if not found:
        raise InputError(
            files,
            f"none of its {plural(total, 'case')} has labels of its sentences",
            "Give the key: --key FILE",
        )

    def drawn(case: Case) -> tuple[str, str]:
        return hashlib.sha256(f"{seed} {fingerprint(case)}".encode()).hexdigest(), case.id

    return sorted(found, key=drawn), summary.sha256, total - len(found)


def _demand_others(search: Sequence[Case], test: Sequence[Case], files: CaseFiles) -> None:
    ids, texts = {case.id for case in search}, {fingerprint(case) for case in search}
    both = next((case for case in test if case.id in ids or fingerprint(case) in texts), None)
    if both is not None:
        fault = f"case {both.id!r} is among the cases of the search too"
        raise InputError(files, fault, "Cases that judge the result must be others")
