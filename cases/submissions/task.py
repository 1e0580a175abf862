"""Common parts of tasks with submissions: form, rules, check of a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from cases.records import Case, InvalidCase
from storage.errors import InputError
from storage.files import write_atomically

Severity = Literal["refused", "penalised"]
"""The official scorer raises (no score at all), or says nothing and scores lower than was meant."""

TaskName = Literal["2025", "2026-1", "2026-2", "2026-3", "2026-4", "bioasq-a", "bioasq-a+", "bioasq-b"]

P = TypeVar("P")
"""Prediction for one case."""

K = TypeVar("K")
"""Known facts of one case, for rules that need them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a submission.

    Attributes:
        case: Id of the case; None for a fault of the whole file, or of an entry that cannot be named.
        place: Where in the file or the entry, such as `line 2`; may be empty.
    """

    severity: Severity
    case: str | None
    place: str
    fault: str
    remedy: str = ""

    @property
    def line(self) -> str:
        """Case, place and fault in one line, without the remedy."""
        parts = (f"case {self.case!r}" if self.case is not None else "", self.place, self.fault)
        return ": ".join(filter(None, parts))


def worst_first(faults: Iterable[Fault]) -> list[Fault]:
    """Refused ones first, each kind in the order in which it was found."""
    return sorted(faults, key=lambda fault: fault.severity != "refused")


def named(items: list[str], most: int = 5) -> str:
    """Quoted items in one line; beyond `most` only their number."""
    shown = ", ".join(map(repr, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


class SetFaults(NamedTuple):
    """Faults of the set of entries as a task reports them; those of a case are completed by its id.

    Attributes:
        empty: No entry at all.
        repeated: Several entries of one case; `{count}` is their number.
        missing: A case of the test set without an entry.
        extra: An entry of a case that the test set does not have.
    """

    empty: Fault
    repeated: Fault
    missing: Fault
    extra: Fault


@dataclass(frozen=True, slots=True)
class Opened:
    """The entries of a submission, None where the official scorer could not get at them."""

    entries: list[object] | None
    faults: tuple[Fault, ...] = ()

    def demand_entries(self, path: Path) -> list[object]:
        """The entries, not yet checked.

        Raises:
            InputError: There are none; names the file.
        """
        if self.entries is None:
            raise InputError(path, self.faults[0].line, self.faults[0].remedy)
        return self.entries


class Words(NamedTuple):
    """The words for submissions to a family of tasks.

    Attributes:
        entry: One entry, and several.
        case: One case, and several.
        filled: What precedes the names of cases that were filled.
        ambiguous: A file that several tasks could take.
        unfit: A file that no task could take.
    """

    entry: tuple[str, str]
    case: tuple[str, str]
    filled: str
    ambiguous: str
    unfit: str


class SubmissionTask(ABC, Generic[P, K]):
    """A task: form of an entry for a case's prediction, and rules for entries."""

    id_field: ClassVar[str]
    set_faults: ClassVar[SetFaults]
    words: ClassVar[Words]
    suffixes: ClassVar[tuple[str, ...]]
    """Suffixes of written files, the usual one first."""

    def __init__(self, name: TaskName) -> None:
        self.name = name

    @abstractmethod
    def form_faults(self, entry: object, number: int) -> list[Fault]:
        """Find what keeps an entry from being read, the `number`th of its file, from 1."""

    @abstractmethod
    def rule_faults(self, entry: Mapping[str, Any], known: K | None) -> Iterator[Fault]:
        """Find broken rules in an entry that `form_faults` finds nothing wrong with."""

    @abstractmethod
    def prediction_of(self, entry: Mapping[str, Any]) -> P:
        """Read an entry that `form_faults` finds nothing wrong with, as the official scorer does."""

    @abstractmethod
    def entry_of(self, prediction: P) -> dict[str, Any]:
        """Write a prediction as an entry.

        Raises:
            ValueError: The form cannot hold it; names the case.
        """

    @abstractmethod
    def has_part(self, prediction: P) -> bool:
        """Whether a prediction has the task's part."""

    @abstractmethod
    def known_in_case(self, case: Case | InvalidCase) -> K:
        """Facts of a case for the rules."""

    @abstractmethod
    def read_expected(self, keys: Sequence[Path], case_files: Sequence[Path]) -> Mapping[str, K]:
        """Read the facts that a submission is checked against, by case id.

        Raises:
            InputError: A file cannot be used.
        """

    @abstractmethod
    def skipped_checks(self, expected: Mapping[str, K] | None) -> list[str]:
        """Name the checks that lack facts, each with the missing input."""

    @staticmethod
    @abstractmethod
    def open(path: Path) -> Opened:
        """Open a file, and keep faults of the file itself.

        Raises:
            InputError: It cannot be read at all.
        """

    @staticmethod
    @abstractmethod
    def packed(entries: Sequence[object], suffix: str) -> bytes:
        """The bytes of a file with a suffix, such as `.zip`; equal entries give equal bytes."""

    def find_faults(self, entries: Sequence[object], expected: Mapping[str, K | None] | None) -> list[Fault]:
        """Find the faults of a submission's entries, the refused ones first."""
        known = expected or {}
        faults: list[Fault] = []
        for number, entry in enumerate(entries, start=1):
            of_form = self.form_faults(entry, number)
            faults += of_form
            if not of_form and isinstance(entry, Mapping):
                faults += self.rule_faults(entry, known.get(entry[self.id_field]))
        return worst_first([*faults, *self._faults_of_set(entries, expected)])

    def read(self, path: Path) -> list[P]:
        """Read a submission so that its score equals the official score.

        Raises:
            InputError: Faults that make the official loader raise. Unknown ids do not: they show only against
                the key.
        """
        predictions = []
        for number, entry in enumerate(self.open(path).demand_entries(path), start=1):
            faults = self.form_faults(entry, number)
            if faults:
                raise InputError(path, faults[0].line, faults[0].remedy)
            assert isinstance(entry, Mapping)
            predictions.append(self.prediction_of(entry))
        return predictions

    def write(self, path: Path, predictions: Iterable[P]) -> None:
        """Write predictions, all of them or none.

        Raises:
            ValueError: A prediction says nothing on the task, or an id cannot be written; names the case.
            InputError: The folder is missing or the file cannot be written.
        """
        self.write_entries(path, [self.entry_of(prediction) for prediction in predictions])

    def write_entries(self, path: Path, entries: Sequence[object]) -> None:
        """Write entries.

        Raises:
            InputError: The folder is missing or the file cannot be written.
        """
        write_atomically(path, [self.packed(entries, path.suffix)])

    def _faults_of_set(
        self, entries: Sequence[object], expected: Mapping[str, K | None] | None
    ) -> Iterator[Fault]:
        if not entries:
            yield self.set_faults.empty
        there = [
            entry[self.id_field] for entry in entries if isinstance(entry, Mapping) and self.id_field in entry
        ]
        ids = Counter(id_ for id_ in there if isinstance(id_, str))
        for id_, count in ids.items():
            if count > 1:
                repeated = self.set_faults.repeated
                yield replace(repeated, case=id_, fault=repeated.fault.format(count=count))
        if expected is None:
            return
        # An id that is a number is rejected for that; it is not missing as well.
        as_texts = set(map(str, there))
        for id_ in expected:
            if id_ not in as_texts:
                yield replace(self.set_faults.missing, case=id_)
        for id_ in ids:
            if id_ not in expected:
                yield replace(self.set_faults.extra, case=id_)
