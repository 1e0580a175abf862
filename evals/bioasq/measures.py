"""Measures of one question: its documents, its snippets, its exact answer and its ideal answer.

Exact answers equal the gold or not; only their case is ignored. Snippets are compared by shared characters.
ROUGE follows ROUGE-1.5.5 (Lin 2004) against several references, without stemming or stop words, as BioASQ
does not publish its flags; `evals.metrics.rouge` differs: it uses the package `rouge_score`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from cases.biomedical import Snippet
from cases.submissions.bioasq import MAX_FACTOID_ENTRIES, MAX_LIST_ENTRIES
from evals.metrics.text_metric import Ngram, count_ngrams, overlap, words
from ranking.measures import DEPTH, Counts, PrecisionRecallF1, count, scores

Answer = str | tuple[tuple[str, ...], ...]
Entries = Sequence[Sequence[str]]
Span = tuple[int, int]
Place = tuple[str, str]
"""Document and section."""

SkipVariant = Literal["perl", "textbook"]
"""ROUGE-1.5.5 leaves out the single word at the end of a text; the definition does not."""

_GAP = 4
"""Most words between the two of a pair."""


def document_scores(given: Sequence[str], relevant: Collection[str]) -> PrecisionRecallF1:
    """Scores of documents as a set, without duplicates."""
    return scores(count(frozenset(given), frozenset(relevant)))


def placed(snippets: Iterable[Snippet]) -> list[Snippet]:
    """Those whose offsets are recorded; others cannot be compared."""
    return [one for one in snippets if _span(one) is not None]


def _span(snippet: Snippet) -> Span | None:
    return None if snippet.begin is None or snippet.end is None else (snippet.begin, snippet.end)


def snippet_scores(given: Sequence[Snippet], wanted: Sequence[Snippet]) -> PrecisionRecallF1:
    """Scores of characters, each counted once however many snippets hold it.

    A given snippet without offsets shares no character, and its length counts.
    """
    lost = sum(len(one.text) for one in given if _span(one) is None)
    mine, theirs = _covered(given), _covered(wanted)
    common = sum(_common(spans, theirs.get(place, [])) for place, spans in mine.items())
    return scores(Counts(common, _length(mine) + lost, _length(theirs)))


def snippet_average_precision(
    given: Sequence[Snippet], wanted: Sequence[Snippet], *, any_of_document: bool = False
) -> float:
    """As of documents, with the precision of characters.

    Args:
        given: Best first.
        wanted: Those of experts; 0 where there are none.
        any_of_document: Reproduce the official scorer's stray semicolon: any snippet of a document that
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
        if (span := _span(one)) is not None:
            spans[one.document, one.section].append(span)
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
    mine, theirs = _span(one), _span(other)
    if mine is None or theirs is None or (one.document, one.section) != (other.document, other.section):
        return False
    return _common([mine], [theirs]) > 0


class FactoidScores(NamedTuple):
    """Whether the first entry is right, whether any is, and 1 over the rank of the first that is."""

    strict: float
    lenient: float
    reciprocal_rank: float


def read_yes_or_no(answer: Answer) -> Literal["yes", "no"] | None:
    """The answer that a text holds, `yes` looked for first; None where it holds neither."""
    text = (answer if isinstance(answer, str) else " ".join(first_names(answer))).lower()
    if "yes" in text:
        return "yes"
    return "no" if "no" in text else None


def first_names(answer: Answer) -> list[str]:
    """The first name of each entry, in lower case."""
    entries: Entries = [[answer]] if isinstance(answer, str) else answer
    return [names[0].lower() for names in entries if names]


def factoid_scores(answer: Answer, gold: Entries) -> FactoidScores:
    """Scores of the first five entries; each may equal any synonym."""
    right = {name.lower() for names in gold for name in names}
    given = first_names(answer)[:MAX_FACTOID_ENTRIES]
    rank = next((rank for rank, name in enumerate(given, start=1) if name in right), None)
    if rank is None:
        return FactoidScores(0.0, 0.0, 0.0)
    return FactoidScores(float(rank == 1), 1.0, 1 / rank)


def list_scores(answer: Answer, gold: Entries) -> PrecisionRecallF1:
    """Each entry takes the first item that it names and that is still there; a second name of it is wrong."""
    left = [{name.lower() for name in names} for names in gold]
    given = first_names(answer)[:MAX_LIST_ENTRIES]
    wanted, right = len(left), 0
    for name in given:
        place = next((place for place, names in enumerate(left) if name in names), None)
        if place is not None:
            right += 1
            del left[place]
    return scores(Counts(right, len(given), wanted))


def rouge_2(candidate: str, references: Sequence[str]) -> PrecisionRecallF1:
    """Pairs of neighbours. Hits are summed over references (`-f A`); no reference is 0."""
    return _against_all(candidate, references, lambda tokens: count_ngrams(tokens, 2))


def rouge_su4(candidate: str, references: Sequence[str], variant: SkipVariant = "perl") -> PrecisionRecallF1:
    """Pairs in order with at most four words between, and single words."""
    return _against_all(candidate, references, lambda tokens: _skip_pairs(tokens, variant))


def _against_all(
    candidate: str, references: Sequence[str], count: Callable[[Sequence[str]], Counter[Ngram]]
) -> PrecisionRecallF1:
    given = count(words(candidate))
    wanted = [count(words(reference)) for reference in references]
    hits = sum(overlap(one, given) for one in wanted)
    return scores(Counts(hits, len(references) * given.total(), sum(one.total() for one in wanted)))


def _skip_pairs(tokens: Sequence[str], variant: SkipVariant) -> Counter[Ngram]:
    last = len(tokens) - 1
    counts: Counter[Ngram] = Counter()
    for place, token in enumerate(tokens):
        if place < last or variant == "textbook":
            counts[token,] += 1
        for other in tokens[place + 1 : place + _GAP + 2]:
            counts[token, other] += 1
    return counts
