"""Builds a corpus in parts: a kill only loses the current part, and a second build continues."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cases.documents import CitationTable, Document, Skipped, read_citations
from cases.formats.document_files import ReaderName, find_documents, reader_of
from cases.texts import hash64, plural
from retrieval.building import Built, Progress, building, versions
from retrieval.corpus.finish import finish, scores_name
from retrieval.corpus.manifest import (
    Manifest,
    Place,
    Settings,
    Source,
    Tally,
)
from retrieval.corpus.part import PARTS, Part, PartWriter, part_folder
from retrieval.corpus.postings import K1, B
from storage.errors import InputError
from storage.files import Meter, file_sha256

# Ids that are looked for in all earlier parts at once.
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a corpus is built.

    Attributes:
        part_size: Documents of a part: memory grows with it, and a kill loses as many at most.
        citations: Table of citation counts; they take the place of those in the documents.
    """

    min_df: int = 1
    part_size: int = 50_000
    citations: Path | None = None
    reader: ReaderName | None = None


def build(
    inputs: Sequence[Path],
    folder: Path,
    options: BuildOptions | None = None,
    *,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Built[Manifest]:
    """Build a corpus at `folder`, or go on with one that was left; files that are new to it are added.

    Raises:
        InputError: An input cannot be read or holds no document, or `folder` holds something else, is being
            built by another process, or was built from other files or in another way.
    """
    options = options or BuildOptions()
    files = find_documents(inputs, options.reader)
    settings = Settings(
        k1=K1,
        b=B,
        min_df=options.min_df,
        reader=options.reader,
        citations=file_sha256(options.citations) if options.citations else None,
    )
    with building(folder, Manifest, [PARTS]):
        # Leftovers of a build that was killed.
        for left in (folder / PARTS).glob(".*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        return _Build(folder, files, settings, options, report).run()


class _Build:
    """One build: its input and its progress."""

    def __init__(
        self,
        folder: Path,
        files: Sequence[Path],
        settings: Settings,
        options: BuildOptions,
        report: Callable[[Progress], None],
    ) -> None:
        self._folder, self._files, self._options, self._report = folder, files, options, report
        self._sizes = [path.stat().st_size for path in files]
        self._manifest = Manifest.read(folder) or Manifest(settings=settings)
        self._parts: list[Part] = []
        while part_folder(folder, len(self._parts)).is_dir():
            self._parts.append(Part(part_folder(folder, len(self._parts))))
        self._settings = settings
        self._tally = Tally()

    def run(self) -> Built[Manifest]:
        self._check()
        found = sum(len(part) for part in self._parts)
        manifest = self._manifest
        if manifest.complete and manifest.settings == self._settings:
            name = scores_name(self._parts, self._settings)
            if len(manifest.sources) == len(self._files) and manifest.scores == name:
                return Built(manifest, found, unchanged=True)
        manifest.complete, manifest.settings = False, self._settings
        self._manifest.write(self._folder)
        for part in self._parts:
            self._tally.merge(part.manifest.tally)
        self._read(self._parts[-1].manifest.after if self._parts else Place())
        if not self._tally.documents:
            (self._folder / Manifest.FILE).unlink()
            faults = [*self._tally.damaged, *self._tally.faults]
            reason = f"; skipped {faults[0]}" if faults else ""
            others = f" and {len(self._files) - 1} more" if len(self._files) > 1 else ""
            names = f"{self._files[0]}{others}"
            raise InputError(names, f"no document in {plural(len(self._files), 'file')}{reason}")
        self._finish()
        return Built(manifest, found, unchanged=False)

    def _check(self) -> None:
        """Compare the parts built so far with the request."""
        before = self._manifest.settings.model_copy(update={"min_df": self._settings.min_df})
        if self._parts and before != self._settings:
            names = [name for name, value in self._settings if value != getattr(before, name)]
            fault = f"was built with another value of {', '.join(names)}"
            raise InputError(self._folder, fault, "Build into another folder")
        if not self._parts:
            self._manifest.sources = []
        sources = self._manifest.sources
        if len(sources) > len(self._files):
            fault = f"was built from {plural(len(sources), 'file')}, and {len(self._files)} are given"
            raise InputError(self._folder, fault, "Give all of them in the same order, or another folder")
        for number, (source, path) in enumerate(zip(sources, self._files, strict=False)):
            if not _same(source, path):
                fault = f"file {number + 1} of this corpus was {source.path}, and {path} has other content"
                raise InputError(
                    self._folder, fault, "Give the same files in the same order, or another folder"
                )

    def _read(self, place: Place) -> None:
        stream = self._records(place)
        for first in stream:
            number = len(self._parts)
            with PartWriter(part_folder(self._folder, number)) as part:
                after = self._fill(part, itertools.chain([first], stream))
                self._tally.merge(part.tally)
                if not part.tally.documents:
                    return  # records skipped after the last document are counted, outside any part
                part.finish(after)
            self._parts.append(Part(part_folder(self._folder, number)))

    def _fill(self, part: PartWriter, stream: Iterator[_Record]) -> Place:
        after = Place()
        seen: set[str] = set()
        while room := self._options.part_size - part.tally.documents:
            batch = list(itertools.islice(stream, min(room, _BATCH)))
            if not batch:
                break
            after = batch[-1].after
            known = self._known([one.item.id for one in batch if isinstance(one.item, Document)])
            for one in batch:
                if isinstance(one.item, Skipped):
                    part.tally.skip(one.item)
                elif one.item.id in seen or one.item.id in known:
                    part.tally.skip_duplicate()
                else:
                    seen.add(one.item.id)
                    part.add(one.item)
            done = sum(self._sizes[: after.source]) + batch[-1].position
            documents = self._tally.documents + part.tally.documents
            self._report(Progress("reading", done, sum(self._sizes), documents))
        return after

    def _known(self, document_ids: Sequence[str]) -> set[str]:
        hashes = np.array([hash64(document_id) for document_id in document_ids], dtype=np.uint64)
        return {
            document_id
            for part in self._parts
            for document_id, number in zip(document_ids, part.find_all(document_ids, hashes), strict=True)
            if number is not None
        }

    def _records(self, place: Place) -> Iterator[_Record]:
        citations = read_citations(self._options.citations) if self._options.citations else None
        for number in range(place.source, len(self._files)):
            path = self._files[number]
            if number == len(self._manifest.sources):
                self._manifest.sources.append(_source(path))
                self._manifest.write(self._folder)
            start = place.records if number == place.source else 0
            meter = Meter()
            items = reader_of(path, self._options.reader)(path, start, meter)
            for records, item in enumerate(items, start=start + 1):
                after = Place(source=number, records=records)
                yield _Record(_cited(item, citations), after, meter.bytes)

    def _finish(self) -> None:
        documents = self._tally.documents

        def report(done: int) -> None:
            self._report(Progress("scoring", done, len(self._parts), documents))

        finished = finish(self._folder, self._parts, self._settings, report)
        manifest = self._manifest
        manifest.complete = True
        self._tally.years = dict(sorted(self._tally.years.items()))
        manifest.tally = self._tally
        manifest.parts = len(self._parts)
        manifest.scores, manifest.terms = finished.scores, finished.terms
        manifest.postings, manifest.mean_length = finished.postings, finished.mean_length
        manifest.versions = versions(("bm25s", "PyStemmer", "pyarrow", "numpy"))
        self._manifest.write(self._folder)
        for part in self._parts:
            part.drop_scores(but=finished.scores)


class _Record(NamedTuple):
    """A record, the place after it, and the bytes of its file that have been read."""

    item: Document | Skipped
    after: Place
    position: int


def _cited(item: Document | Skipped, citations: CitationTable | None) -> Document | Skipped:
    if citations is None or isinstance(item, Skipped):
        return item
    return replace(item, citations=citations.count(item.id))


def _source(path: Path) -> Source:
    stat = path.stat()
    return Source(path=str(path), bytes=stat.st_size, modified_ns=stat.st_mtime_ns, sha256=file_sha256(path))


def _same(source: Source, path: Path) -> bool:
    stat = path.stat()
    if stat.st_size != source.bytes:
        return False
    return stat.st_mtime_ns == source.modified_ns or file_sha256(path) == source.sha256
