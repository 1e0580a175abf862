"""Which cases of an input are taken: certain ids, the first ones, or one shard of them.

In this order: `--case-ids` chooses, `--limit` takes the first of those, and shards divide these. So the
shards of any choice together are that choice.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from cases.texts import plural
from storage.errors import InputError
from storage.files import opened

T = TypeVar("T")

_RANGE = re.compile(r"(\d+)-(\d+)", re.ASCII)
_MAX_RANGE = 1_000_000
_SHARD = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)
_COMPARED = 10_000
"""Ids beyond which no similar one is looked for: that would take longer than the check."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of an input: the cases whose id hashes to it.

    Attributes:
        index: From 0, as SLURM counts tasks of `--array=0-N` and Kubernetes the pods of an Indexed Job.
    """

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def has(self, case_id: str) -> bool:
        """Whether a case belongs to it."""
        return shard_index(case_id, self.count) == self.index


def shard_index(case_id: str, count: int) -> int:
    """Which of so many shards a case belongs to, from 0; by a hash that is the same everywhere and always."""
    digest = hashlib.sha256(case_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % count


def parse_shard(text: str) -> Shard:
    """Read `I/N`.

    Raises:
        ValueError: It is none.
    """
    found = _SHARD.fullmatch(text)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not count:
        raise ValueError(f"{text!r} is not a shard; write it as I/N, such as 0/8")
    if index >= count:
        last = f"{count - 1}/{count}"
        raise ValueError(f"shard {text} is out of range: they are counted from 0, so the last is {last}")
    return Shard(index, count)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cases of an input are taken; all of them without any field.

    Attributes:
        case_ids: Only these; they run in the order of the input.
        limit: Only the first of those.
        shard: Only the part of those that hashes to it.
        only: Of all that, this one case.
    """

    case_ids: tuple[str, ...] | None = None
    limit: int | None = None
    shard: Shard | None = None
    only: str | None = None

    @property
    def takes_all(self) -> bool:
        """Whether no case is left out."""
        return self == EVERYTHING

    @property
    def whole(self) -> Selection:
        """The same without a shard: what all shards have together."""
        return replace(self, shard=None)

    @property
    def words(self) -> str:
        """The flags that a user gave, in words; empty where there are none."""
        parts = []
        if self.case_ids is not None:
            parts.append(f"to {len(self.case_ids):,} ids (--case-ids)")
        if self.limit is not None:
            parts.append(f"to {plural(self.limit, 'case')} (--limit)")
        if self.shard is not None:
            parts.append(f"to shard {self.shard} (--shard)")
        return ", ".join(parts)

    def of(self, cases: Iterable[T], id_of: Callable[[T], str] = attrgetter("id")) -> Iterator[T]:
        """Selected cases of an input, streamed, in its order."""
        taken = iter(cases)
        if self.case_ids is not None:
            wanted = frozenset(self.case_ids)
            # Nothing is read behind the last of them.
            taken = islice((case for case in taken if id_of(case) in wanted), len(wanted))
        taken = islice(taken, self.limit)
        return (case for case in taken if self._may_have(id_of(case)))

    def of_ids(self, ids: Iterable[str]) -> set[str]:
        """Selected ids, as far as ids determine it: positions in the input are unknown here."""
        return set(replace(self, limit=None).of(ids, str))

    def _may_have(self, case_id: str) -> bool:
        return self.only in (None, case_id) and (self.shard is None or self.shard.has(case_id))

    def check(self, origin: object, ids: Collection[str]) -> int:
        """How many cases are taken of an input.

        Raises:
            InputError: An id that is asked for is not there.
        """
        missing = [id_ for id_ in self.case_ids or () if id_ not in ids]
        if missing:
            shown = ", ".join(map(repr, missing[:5]))
            shown += f" and {len(missing) - 5:,} more" if missing[5:] else ""
            near = difflib.get_close_matches(missing[0], ids, n=1) if len(ids) <= _COMPARED else []
            hint = f"Did you mean {near[0]!r}?" if near else "Correct --case-ids"
            raise InputError(origin, f"has no case {shown} of --case-ids", hint)
        return sum(1 for _ in self.of(ids, str))


EVERYTHING = Selection()


def parse_case_ids(text: str) -> tuple[str, ...]:
    """Read ids as the official scorers take them, `121-167 5`, separated by commas or blanks; or `@FILE`.

    `a-b` of whole numbers is a range with both ends in it. A file has one id a line, taken literally.

    Raises:
        ValueError: It names no case, or a range is not one.
        InputError: The file cannot be read.
    """
    if text.startswith("@"):
        return _in_file(Path(text[1:]))
    ids: dict[str, Any] = {}
    for part in text.replace(",", " ").split():
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            ids[part] = None
            continue
        first, last = int(bounds[1]), int(bounds[2])
        if not 0 <= last - first < _MAX_RANGE:
            raise ValueError(f"--case-ids: {part!r} is not a range; write the smaller id first")
        ids |= dict.fromkeys(str(number) for number in range(first, last + 1))
    if not ids:
        raise ValueError("--case-ids names no case; write ids and ranges such as 1-20,35")
    return tuple(ids)


def _in_file(path: Path) -> tuple[str, ...]:
    try:
        with opened(path) as file:
            lines = file.read().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not UTF-8: {error.reason} at byte {error.start}") from None
    ids = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not ids:
        raise InputError(path, "names no case", "Write one case id a line")
    return ids
