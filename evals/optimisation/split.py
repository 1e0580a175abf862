"""Labelled cases in two parts: one that the search sees, and one that it never sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cases.formats.plain_jsonl import write_jsonl
from cases.load import CaseSource, find_cases
from cases.records import Case
from cases.texts import hash_order, plural
from evals.errors import OptimisationError
from evals.scoring.gold import GoldCase, gold_of_case
from retrieval.pools.compared import fingerprint
from storage.errors import InputError
from storage.url_names import name_of

FEWEST = 4
"""Cases of each part. With fewer, one case decides, and an interval says nothing."""


@dataclass(frozen=True, slots=True)
class CaseFiles:
    """Case files with their keys; without keys, those next to the case files are used."""

    cases: tuple[Path, ...]
    keys: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return ", ".join(map(name_of, self.cases))

    @property
    def source(self) -> CaseSource:
        """Cases and keys of the files.

        Raises:
            InputError: A path is missing.
        """
        return find_cases(self.cases, self.keys)


@dataclass(frozen=True, slots=True)
class Part:
    """Cases of one part as a file that runs read, in an order drawn by the seed.

    The first cases of the search part are therefore a sample of it.
    """

    path: Path
    cases: tuple[Case, ...]

    @property
    def gold(self) -> Mapping[str, GoldCase]:
        return {case.id: gold_of_case(case) for case in self.cases}


@dataclass(frozen=True, slots=True)
class Split:
    """Both parts.

    Attributes:
        sha256: Of the files they were read from.
        left_out: Cases without labels or sentences, or that cannot be read.
    """

    search: Part
    test: Part
    sha256: str
    left_out: int

    @property
    def weak(self) -> int:
        """Cases whose labels were made from a clinician's answer."""
        return sum(case.gold.label_source == "weak" for case in (*self.search.cases, *self.test.cases))

    def write(self) -> None:
        """Write each part to its file.

        Raises:
            InputError: A file cannot be written.
        """
        for part in (self.search, self.test):
            part.path.parent.mkdir(parents=True, exist_ok=True)
            write_jsonl(part.path, part.cases)


def split_cases(files: CaseFiles, test: float | CaseFiles, seed: int, folder: Path) -> Split:
    """Read labelled cases and divide them; cases with equal texts under several ids are in one part.

    `test` is the share of the cases that the search never sees, or files of them; the files of the parts,
    below the folder, are not written yet.

    Raises:
        InputError: A file cannot be read or has no labels, or a case is in both parts.
        OptimisationError: There are too few cases.
    """
    given, sha256, left_out = _labelled(files, seed)
    if isinstance(test, CaseFiles):
        held_out, test_sha256, test_left_out = _labelled(test, seed)
        sha256, left_out = f"{sha256} {test_sha256}", left_out + test_left_out
        ids, texts = {case.id for case in given}, {fingerprint(case) for case in given}
        both = next((case for case in held_out if case.id in ids or fingerprint(case) in texts), None)
        if both is not None:
            fault = f"case {both.id!r} is among the cases of the search too"
            raise InputError(test, fault, "Cases that judge the result must be others")
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
                f" {FEWEST}; give more cases, another share, or a separate file: --test FILE"
            )
    search, unseen = map(tuple, parts)
    return Split(Part(folder / "search.jsonl", search), Part(folder / "test.jsonl", unseen), sha256, left_out)


def _labelled(files: CaseFiles, seed: int) -> tuple[list[Case], str, int]:
    """The cases that can be scored, in drawn order; the digest of their files; how many others there are."""
    summary = files.source.check()
    found = [case for case in files.source if isinstance(case, Case) and case.sentences and case.gold.labels]
    total = summary.cases + summary.invalid
    if not found:
        raise InputError(
            files,
            f"none of its {plural(total, 'case')} has labels of its sentences",
            "Give the key: --key FILE",
        )
    by_id = sorted(found, key=lambda case: case.id)
    return hash_order(by_id, lambda case: f"{seed} {fingerprint(case)}"), summary.sha256, total - len(found)
