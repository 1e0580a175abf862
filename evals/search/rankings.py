"""Every question searched for in every way, and put in order by every reranker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from evals.search.questions import JudgedQuestion
from evals.search.retrievers import RetrieverName, Retrievers, Scored
from ranking.rankers.ranker import Ranker
from storage.errors import InputError
from storage.files import json_bytes

Report = Callable[[int], None]
Reranked = dict[tuple[str, int], list[list[Scored]]]
"""By reranker and depth, a ranking a question."""

_CACHED_LINE = b'{"key": "'


@dataclass(frozen=True, slots=True)
class Rankings:
    """Rankings of all questions, in their order, best document first.

    Attributes:
        retrieved: By retriever.
        source: Whose documents the rerankers were given.
        reranked: Those documents, as deep as it says, in the order of a reranker; the rest behind them is
            left out.
    """

    questions: Sequence[JudgedQuestion]
    retrieved: Mapping[RetrieverName, Sequence[Sequence[Scored]]]
    source: RetrieverName
    reranked: Reranked = field(default_factory=dict)


class ScoreCache:
    """Scores by what they were made from: ranker, query and passages. Without a file nothing is kept."""

    def __init__(self, path: Path | None = None) -> None:
        """Read what a file has, whatever wrote it; a torn last line is dropped.

        Raises:
            InputError: The file holds something else, or cannot be written.
        """
        self._known: dict[str, list[float]] = {}
        self._file: IO[bytes] | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes() if path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            # Checked before anything is changed: the file may be another's.
            self._known = _read_cache(path, whole, content[len(whole) :])
            self._file = path.open("ab", buffering=0)
            self._file.truncate(len(whole))
        except OSError as error:
            raise InputError(path, f"cannot be written: {error.strerror or error}") from error

    def scores(self, ranker: Ranker, query: str, passages: Sequence[str]) -> list[float]:
        """Of every passage, kept ones or new ones."""
        key = hashlib.sha256(json.dumps([ranker.identity, query, list(passages)]).encode()).hexdigest()
        if key not in self._known:
            scores = [float(score) for score in ranker.rank(query, passages).scores]
            self._known[key] = scores
            if self._file is not None:
                self._file.write(json_bytes({"key": key, "scores": scores}))
        return self._known[key]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _read_cache(path: Path, lines: bytes, torn: bytes) -> dict[str, list[float]]:
    try:
        if not torn.startswith(_CACHED_LINE[: len(torn)]):
            raise ValueError("no line of ours")
        found = {}
        for line in lines.splitlines():
            fields = json.loads(line)
            found[str(fields["key"])] = [float(score) for score in fields["scores"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(path, "holds no scores of rerankers", "Choose another file") from error
    return found


async def search_all(
    retrievers: Retrievers,
    questions: Sequence[JudgedQuestion],
    depth: int,
    source: RetrieverName,
    report: Report,
) -> Rankings:
    """Search for every question."""
    found: dict[RetrieverName, list[list[Scored]]] = {name: [] for name in retrievers.names}
    for done, question in enumerate(questions, start=1):
        for name, ranking in (await retrievers.search(question.text, depth)).items():
            found[name].append(ranking)
        report(done)
    return Rankings(questions, found, source)


def rerank_all(
    rankings: Rankings,
    retrievers: Retrievers,
    ranker: Ranker,
    name: str,
    depths: Sequence[int],
    cache: ScoreCache,
    report: Report,
) -> None:
    """Put the documents of every question in the order of a reranker, at every depth; each is scored once."""
    rows: dict[int, list[list[Scored]]] = {depth: [] for depth in depths}
    pairs = zip(rankings.questions, rankings.retrieved[rankings.source], strict=True)
    for done, (question, found) in enumerate(pairs, start=1):
        ids = [one.id for one in found[: max(depths)]]
        scores = cache.scores(ranker, question.text, retrievers.passages(ids))
        scored = [Scored(id_, score) for id_, score in zip(ids, scores, strict=True)]
        for depth in depths:
            rows[depth].append(sorted(scored[:depth], key=lambda one: -one.score))
        report(done)
    rankings.reranked.update({(name, depth): of_depth for depth, of_depth in rows.items()})
