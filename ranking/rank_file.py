"""Many examples, ranked one document at a time, going on after those that a file has already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

from cases.errors import InputError
from ranking.cutoffs import Cutoff
from ranking.examples import Example
from ranking.partial_file import PartialFile
from ranking.ranked_rows import RankedRow, example_sha256, read_row, row_of
from ranking.ranker import Ranked, Ranker
from ranking.verify import SourceRanker

ROW = "row"
_KEY = "example"
_AT_ONCE = 64


def rank_examples(
    ranker: Ranker, cutoff: Cutoff, examples: Sequence[Example], file: PartialFile | None = None
) -> Iterator[RankedRow]:
    """Rank examples in their order.

    Args:
        ranker: Reads a document once for the queries on it that follow one another, where it can.
        cutoff: Which sentences are selected.
        examples: To rank.
        file: Gets every row as soon as it is there. Rows that it has are not made again.

    Raises:
        InputError: The file was begun with other examples, or cannot be written.
        RankerError: A score is no number.
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
            yield read_row(line[ROW])
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
            rankings = (
                ranker.rank_many(queries, sentences)
                if isinstance(ranker, SourceRanker)
                else (ranker.rank(query, sentences) for query in queries)
            )
            yield from zip(rankings, group, strict=True)
