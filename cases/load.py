"""Case files and their keys, found, checked and read as one stream of cases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from cases.formats.archehr_key import read_archehr_key
from cases.formats.archehr_xml import read_archehr_xml
from cases.formats.json_questions import holds_questions, read_json_questions
from cases.formats.note_files import NOTE_SUFFIXES
from cases.formats.plain_jsonl import read_jsonl
from cases.records import Case, Gold, InvalidCase
from cases.selection import EVERYTHING, Selection
from cases.texts import quoted
from storage.copies import OBJECTS, fetch, url_of
from storage.errors import InputError, missing
from storage.files import opened
from storage.url_names import name_of

_READERS: Mapping[str, Callable[[Path], Iterator[Case | InvalidCase]]] = {
    ".xml": read_archehr_xml,
    ".jsonl": read_jsonl,
    ".json": read_json_questions,
}

CASE_SUFFIXES = tuple(_READERS)
"""Of case files."""


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """Result of a check of the input: usable cases, unusable ones, and the digest of all its files.

    `selected` counts those of both that the source gives.
    """

    cases: int
    invalid: int
    sha256: str
    selected: int


class _KeyEntry(NamedTuple):
    """Key of a case: all files that name it, the last one that labels it."""

    keys: tuple[Path, ...]
    gold: Gold


@dataclass(frozen=True, slots=True)
class CaseSource:
    """Case files, the keys to them, and which cases are taken; iterating reads those in the files' order."""

    paths: tuple[Path, ...]
    keys: tuple[Path, ...] = ()
    selection: Selection = EVERYTHING

    @property
    def unselected(self) -> CaseSource:
        """The same files with all of their cases."""
        return replace(self, selection=EVERYTHING)

    @property
    def unsharded(self) -> CaseSource:
        """The same without a shard: the cases that all shards have together."""
        return replace(self, selection=self.selection.whole)

    def __iter__(self) -> Iterator[Case | InvalidCase]:
        """Read one case at a time, with its key."""
        return self.selection.of(self._all())

    def _all(self) -> Iterator[Case | InvalidCase]:
        gold = self._gold()
        for _, case in self._read():
            if isinstance(case, Case) and case.id in gold:
                yield replace(case, gold=_merged(case.gold, gold[case.id].gold))
            else:
                yield case

    def check(self) -> SourceSummary:
        """Read everything once and count it.

        Raises:
            InputError: a file cannot be read, a case id occurs twice, a key belongs to other cases, or a case
                that is asked for is not there.
        """
        gold = self._gold()
        places: dict[str, tuple[int, Path]] = {}
        invalid = 0
        counts: Counter[Path] = Counter()
        for path, case in self._read():
            counts[path] += 1
            if case.id in places:
                first = "by case {} of {}".format(*places[case.id])
                here = f"by case {counts[path]} of this file"
                raise InputError(path, f"case id {case.id!r} is used twice: {here} and {first}")
            places[case.id] = (counts[path], path)
            if isinstance(case, InvalidCase):
                invalid += 1
            elif case.id in gold:
                _check_labels(gold[case.id].keys[-1], gold[case.id].gold, case, path)
        for key in self.keys:
            _check_key(key, [case_id for case_id, entry in gold.items() if key in entry.keys], places)
        selected = self.selection.check(", ".join(map(str, self.paths)), places)
        return SourceSummary(len(places) - invalid, invalid, self.digest(), selected)

    def gold(self) -> dict[str, Gold]:
        """Keys of all cases that they name, whether the case files have them or not."""
        return {case_id: entry.gold for case_id, entry in self._gold().items()}

    def _read(self) -> Iterator[tuple[Path, Case | InvalidCase]]:
        names: frozenset[str] | None = None
        for path, case in self._unlocated():
            if isinstance(case, Case):
                yield path, case
                continue
            case_id = case.id
            if _is_nameless(case):
                if names is None:
                    # A separate pass, but only over input with such a case.
                    names = frozenset(one.id for _, one in self._unlocated() if not _is_nameless(one))
                case_id = f"{name_of(path)} {case_id}" if len(self.paths) > 1 else case_id
                while case_id in names:
                    # Somebody has called a case "line 2".
                    case_id += " (without an id)"
            yield path, InvalidCase(case_id, f"{name_of(path)}: {case.fault}")

    def _unlocated(self) -> Iterator[tuple[Path, Case | InvalidCase]]:
        for path in self.paths:
            for case in _READERS[path.suffix.lower()](path):
                yield path, case

    def _gold(self) -> dict[str, _KeyEntry]:
        gold: dict[str, _KeyEntry] = {}
        for key in self.keys:
            for case_id, entry in read_archehr_key(key).items():
                found = _KeyEntry((key,), entry)
                gold[case_id] = _completed(case_id, gold[case_id], found) if case_id in gold else found
        return gold

    def digest(self) -> str:
        """SHA-256 over the bytes of all case and key files."""
        digest = hashlib.sha256()
        for path in (*self.paths, *self.keys):
            with opened(path) as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
        return digest.hexdigest()


def _is_nameless(case: Case | InvalidCase) -> bool:
    """Whether an unusable case is named by its place, such as `line 2`."""
    return isinstance(case, InvalidCase) and case.fault.startswith((f"{case.id}:", f"{case.id},"))


def find_cases(
    inputs: Sequence[Path], keys: Sequence[Path] = (), selection: Selection = EVERYTHING
) -> CaseSource:
    """Find the case files that `inputs` name, in their order, and their keys.

    Args:
        inputs: files, and folders whose case files are taken by name.
        keys: key files; without any, `<stem>_key.json` next to each XML file is used if present.
        selection: which of their cases are taken.

    Raises:
        InputError: a path is missing or is not a case file, a folder has none, or a URL cannot be fetched.
        PolicyError: a data policy forbids the host of a URL.
    """
    paths = _unique(path for given in inputs for path in _case_files(given))
    for key in keys:
        _check_exists(key)
    siblings = (path.with_name(f"{path.stem}_key.json") for path in paths if path.suffix.lower() == ".xml")
    return CaseSource(paths, _unique(keys or filter(_is_key, siblings)), selection)


def _is_key(path: Path) -> bool:
    fetch(path, "the key to the cases next to it")
    return path.is_file()


def sort_keys(keys: Sequence[Path], case_files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Tell key files from case files that were given as keys: subtask 1 of 2026 is scored against an XML.

    Returns:
        The key files, and all case files.
    """
    from_keys = [path for path in keys if path.suffix.lower() in (".xml", ".jsonl")]
    return [path for path in keys if path not in from_keys], [*case_files, *from_keys]


def _unique(paths: Iterable[Path]) -> tuple[Path, ...]:
    unique: dict[Path, Path] = {}
    for path in paths:
        unique.setdefault(path.resolve(), path)
    return tuple(unique.values())


def _case_files(given: Path) -> list[Path]:
    _check_exists(given)
    if given.is_dir():
        return _folder(given)
    if given.suffix.lower() in NOTE_SUFFIXES:
        cases = quoted(given.with_suffix(".jsonl").name)
        remedy = f"Make cases of it: evigraph cases import {quoted(given)} --out {cases}"
        raise InputError(given, "has notes, and is not a case file yet", remedy)
    if given.suffix.lower() not in _READERS:
        name = given.suffix or "no suffix"
        known = ".xml, .jsonl, or .json of PubMedQA and BioASQ"
        raise InputError(given, f"{name} is not the suffix of a case file", f"Case files end in {known}")
    return [given]


def _folder(folder: Path) -> list[Path]:
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    files = [
        entry
        for entry in entries
        if entry.suffix.lower() in _READERS
        and not entry.name.startswith(".")
        and entry.is_file()
        # Other files that end so are keys, submissions and settings.
        and (entry.suffix.lower() != ".json" or holds_questions(entry))
    ]
    if not files:
        fault = "no .xml, .jsonl, or .json of questions in this folder"
        notes = any(entry.suffix.lower() in NOTE_SUFFIXES for entry in entries)
        cases = f"Make cases of its notes: evigraph cases import {quoted(folder)} --out cases.jsonl"
        raise InputError(folder, fault, cases if notes else "Give the files or their own folder")
    return files


def _check_exists(path: Path) -> None:
    fetch(path)
    if path.exists():
        return
    if url_of(path) is not None:
        kind = "object" if path.suffix.lower() in OBJECTS else "object, and nothing below it"
        raise InputError(path, f"no such {kind}", "Check the URL")
    raise missing(path)


def _completed(case_id: str, first: _KeyEntry, second: _KeyEntry) -> _KeyEntry:
    """Two keys of one case: only weak labels may join an entry without labels.

    Raises:
        InputError: They say the same kind of thing twice.
    """
    for plain, weak in ((first, second), (second, first)):
        if plain.gold.labels is None and weak.gold.label_source == "weak":
            return _KeyEntry(plain.keys + weak.keys, _merged(plain.gold, weak.gold))
    raise InputError(second.keys[0], f"case {case_id!r} is in {first.keys[-1]} too", "Give one of them")


def _merged(own: Gold, key: Gold) -> Gold:
    """The key's parts where it has them; labels of people are not replaced by weak ones."""
    by_people = own.labels is not None and own.label_source == "gold"
    keeps_own = key.labels is None or (by_people and key.label_source == "weak")
    labelled = own if keeps_own else key
    return Gold(
        labels=labelled.labels,
        label_source=labelled.label_source,
        answer=own.answer if key.answer is None else key.answer,
        answer_sentences=own.answer_sentences if key.answer_sentences is None else key.answer_sentences,
        intent=own.intent if key.intent is None else key.intent,
        verdict=own.verdict if key.verdict is None else key.verdict,
        exact_answer=own.exact_answer if key.exact_answer is None else key.exact_answer,
        ideal_answers=own.ideal_answers if key.ideal_answers is None else key.ideal_answers,
    )


def _check_labels(key: Path, gold: Gold, case: Case, path: Path) -> None:
    """Compare labels with sentences, unless the case comes without a note as some stages' files do."""
    known = set(case.sentence_ids)
    unknown = [sentence_id for sentence_id in gold.labels or () if sentence_id not in known]
    if known and unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        fault = f"case {case.id!r}: labels sentence {unknown[0]!r}{more}, which {path} does not have"
        raise InputError(key, fault, "Give the key of these very cases")


def _check_key(key: Path, labelled: Sequence[str], places: Mapping[str, object]) -> None:
    if any(case_id in places for case_id in labelled):
        return
    fault = f"wrong key file: none of its {_count(labelled)} is among the {_count([*places])} of the input"
    raise InputError(key, fault, "Give the key of these very cases")


def _count(ids: Sequence[str]) -> str:
    return f"{len(ids)} case ids" + (f" (such as {ids[0]!r})" if ids else "")


def packaged_path(file: str) -> Path:
    """Path of a packaged invented sample, such as `batch.xml`."""
    return Path(str(resources.files("cases").joinpath("samples", *file.split("/"))))


def packaged_cases(file: str) -> CaseSource:
    """The invented cases of a sample file."""
    return find_cases([packaged_path(file)], [])
