"""Many examples, ranked one document at a time, going on after those that a file has already."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter

from cases.texts import json_sha256
from ranking.cutoffs import Cutoff, select
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.prefixes import checked_scores
from ranking.rankers.ranker import Ranked, Ranker, rank_queries
from storage.errors import InputError
from storage.files import end_of_whole_lines, json_bytes, write_all, write_atomically

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class RankedRow:
    """A line of the output; its fields are the keys of the JSON.

    Attributes:
        selected: Ids of sentences, in document order.
        scores: By sentence id, in document order.
        cut_sentences: Ids of sentences of which only the beginning was read.
        query_cut: Whether only the beginning of the query was.
        gold: Ids of the sentences that are evidence; None where unlabelled.
        weak: Whether a model made the labels: they are never scored against.
    """

    id: str
    selected: tuple[str, ...]
    scores: Mapping[str, float]
    cut_sentences: tuple[str, ...]
    query_cut: bool
    gold: tuple[str, ...] | None
    weak: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def labels(self) -> list[bool] | None:
        if self.gold is None:
            return None
        gold = set(self.gold)
        return [id_ in gold for id_ in self.scores]


_ROWS: TypeAdapter[RankedRow] = TypeAdapter(RankedRow)


def row_of(example: Example, ranked: Ranked, cutoff: Cutoff, identity: str) -> RankedRow:
    """Cut a ranking.

    Raises:
        RankerError: A score is NaN or infinite.
    """
    ids = sentence_ids(example)
    try:
        scores = checked_scores(ranked.scores)
    except ValueError as error:
        raise RankerError(f"ranker {identity}, example {example.id!r}: {error}") from None
    return RankedRow(
        id=example.id,
        selected=tuple(ids[place] for place in select(cutoff, scores)),
        scores={id_: round(float(score), _DIGITS) for id_, score in zip(ids, scores, strict=True)},
        cut_sentences=tuple(ids[place] for place in ranked.cut_sentences),
        query_cut=ranked.query_cut,
        gold=None
        if example.labels is None
        else tuple(id_ for id_, label in zip(ids, example.labels, strict=True) if label),
        weak=example.label_source == "weak",
    )


def sentence_ids(example: Example) -> tuple[str, ...]:
    """The source's, or positions from 0."""
    return example.sentence_ids or tuple(str(place) for place in range(len(example.sentences)))


def example_sha256(example: Example) -> str:
    """Digest of all that a ranker or a score reads of an example."""
    fields = [
        example.id,
        example.query,
        example.sentences,
        example.labels,
        example.label_source,
        example.sentence_ids,
    ]
    return json_sha256(fields)


Fields = dict[str, Any]

SUFFIX = ".partial"


class PartialFile:
    """Collects lines in `FILE.partial`, and replaces `FILE` with them when all are there.

    A context manager: left early, it keeps what there is. Holds no lines in memory.
    """

    def __init__(self, path: Path, made_by: Fields) -> None:
        """Open the partial file, or begin it.

        Args:
            path: Of the whole file.
            made_by: What shapes its lines; a partial file is only gone on with under the same.

        Raises:
            InputError: Another process is writing it, it was begun under something else, or it cannot be
                written.
        """
        self.path = path
        self.partial = path.with_name(path.name + SUFFIX)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.partial, os.O_RDWR | os.O_CREAT, 0o666)
            self._file: IO[bytes] = os.fdopen(descriptor, "r+b", buffering=0)
        except OSError as error:
            raise InputError(self.partial, f"cannot be written: {error.strerror or error}") from error
        try:
            self._begin(made_by)
        except BaseException:
            self._file.close()
            raise

    def lines(self) -> Iterator[Fields]:
        """Those of earlier processes and of this one, streamed."""
        with self.partial.open("rb") as file:
            next(file)
            for line in file:
                yield json.loads(line)

    def append(self, fields: Fields) -> None:
        """Add a line. After a fault of the disk the file holds only whole lines.

        Raises:
            InputError: It cannot be written.
        """
        end = self._file.tell()
        try:
            write_all(self._file, json_bytes(fields))
        except OSError as error:
            os.ftruncate(self._file.fileno(), end)
            raise InputError(self.partial, f"cannot be written: {error.strerror or error}") from error

    def finish(self, key: str) -> None:
        """Write the whole file: each line's value of `key`.

        Raises:
            InputError: It cannot be written; the partial file stays.
        """
        write_atomically(self.path, (json_bytes(line[key]) for line in self.lines()))
        self.partial.unlink()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> PartialFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, made_by: Fields) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(self.partial, "another process is writing it") from None
        end = end_of_whole_lines(self._file)
        self._file.truncate(end)
        if end == 0:
            self._file.seek(0)
            self.append(made_by)
            return
        self._file.seek(0)
        try:
            found = json.loads(self._file.readline())
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise InputError(self.partial, "is not a partial ranking", "Choose another file, or delete it")
        changed = [name for name in {**made_by, **found} if made_by.get(name) != found.get(name)]
        if changed:
            raise InputError(
                self.partial,
                f"was begun with another {' and '.join(changed)}",
                "Give the same again to go on, or delete it to begin anew",
            )
        self._file.seek(end)


ROW = "row"
_KEY = "example"
_AT_ONCE = 64


def rank_examples(
    ranker: Ranker, cutoff: Cutoff, examples: Sequence[Example], file: PartialFile | None = None
) -> Iterator[RankedRow]:
    """Rank examples in their order; rows are written to the file at once, and existing ones are read from it.

    Raises:
        InputError: The file was begun with other examples, or cannot be written.
        RankerError: A score is NaN or infinite.
    """
    done = 0
    if file is not None:
        for line in file.lines():
            if done == len(examples) or line.get(_KEY) != example_sha256(examples[done]):
                raise InputError(
                    file.partial,
                    "was begun with other examples",
                    "Give the same again to go on, or delete it to begin anew",
                )
            yield _ROWS.validate_python(line[ROW])
            done += 1
    for ranked, example in rank_documents(ranker, islice(examples, done, None)):
        row = row_of(example, ranked, cutoff, ranker.identity)
        if file is not None:
            file.append({_KEY: example_sha256(example), ROW: row.as_json()})
        yield row


def rank_documents(ranker: Ranker, examples: Iterable[Example]) -> Iterator[tuple[Ranked, Example]]:
    """Rank examples in their order, a document once for the queries on it that follow one another."""
    for _, of_document in groupby(examples, key=lambda one: (one.document_id, one.sentences)):
        while group := list(islice(of_document, _AT_ONCE)):
            queries, sentences = [one.query for one in group], group[0].sentences
            yield from zip(rank_queries(ranker, queries, sentences), group, strict=True)
