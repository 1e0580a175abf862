"""Measures of one question's snippets: characters that they share with those of experts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from cases.biomedical import Snippet
from evals.bioasq.overlap import Scores, scores
from evals.bioasq.ranking import DEPTH

Span = tuple[int, int]
Place = tuple[str, str]
"""Document and section."""


def placed(snippets: Iterable[Snippet]) -> list[Snippet]:
    """Those whose offsets are recorded; others cannot be compared."""
    return [one for one in snippets if one.begin is not None and one.end is not None]


def snippet_scores(given: Sequence[Snippet], wanted: Sequence[Snippet]) -> Scores:
    """Of characters, each counted once however many snippets hold it.

    A given snippet without offsets shares no character, and its length counts.
    """
    lost = sum(len(one.text) for one in given if one.begin is None or one.end is None)
    mine, theirs = _covered(placed(given)), _covered(placed(wanted))
    common = sum(_common(spans, theirs.get(place, [])) for place, spans in mine.items())
    return scores(common, _length(mine) + lost, _length(theirs))


def snippet_average_precision(
    given: Sequence[Snippet], wanted: Sequence[Snippet], *, any_of_document: bool = False
) -> float:
    """As of documents, with the precision of characters.

    Args:
        given: Best first.
        wanted: Those of experts; 0 where there are none.
        any_of_document: What the official scorer does by a stray semicolon: any snippet of a document that
            has a wanted one counts as a hit, so that the value can pass 1. Otherwise a hit is a snippet that
            overlaps a wanted one which no snippet before it overlaps.
    """
    if not wanted:
        return 0.0
    documents = {one.document for one in wanted}
    left = placed(wanted)
    total = 0.0
    for rank, one in enumerate(given, start=1):
        met = [other for other in left if _overlap(one, other)]
        left = [other for other in left if other not in met]
        if one.document in documents if any_of_document else met:
            total += snippet_scores(given[:rank], wanted).precision
    return total / min(DEPTH, len(wanted))


def _covered(snippets: Iterable[Snippet]) -> Mapping[Place, list[Span]]:
    """Stretches that snippets cover, those that overlap merged, by place and in order."""
    spans: defaultdict[Place, list[Span]] = defaultdict(list)
    for one in snippets:
        if one.begin is not None and one.end is not None:
            spans[one.document, one.section].append((one.begin, one.end))
    merged: dict[Place, list[Span]] = {}
    for place, each in spans.items():
        kept: list[Span] = []
        for begin, end in sorted(each):
            if kept and begin <= kept[-1][1]:
                kept[-1] = (kept[-1][0], max(end, kept[-1][1]))
            else:
                kept.append((begin, end))
        merged[place] = kept
    return merged


def _common(one: Sequence[Span], other: Sequence[Span]) -> int:
    return sum(
        max(0, min(end, its_end) - max(begin, its_begin))
        for begin, end in one
        for its_begin, its_end in other
    )


def _length(covered: Mapping[Place, Sequence[Span]]) -> int:
    return sum(end - begin for spans in covered.values() for begin, end in spans)


def _overlap(one: Snippet, other: Snippet) -> bool:
    if (one.document, one.section) != (other.document, other.section):
        return False
    if one.begin is None or one.end is None or other.begin is None or other.end is None:
        return False
    return min(one.end, other.end) > max(one.begin, other.begin)
