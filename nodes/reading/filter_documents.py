"""Only documents of some age, weight and kind may be evidence (Vladika and Matthes 2024, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import Fact, plain
from nodes.core.node import NodeSpec
from nodes.core.records import Decision, decision
from nodes.reading.settings import LiteratureSettings
from nodes.reading.study_strength import Strength, at_least, strength_of
from nodes.retrieval.document_records import FoundDocument


@dataclass(frozen=True, slots=True)
class Dropped:
    """A document that may not be evidence; `reason` has no text of it."""

    id: str
    rank: int
    reason: str


@dataclass(frozen=True, slots=True)
class Filtered:
    """Documents in the order of the search."""

    kept: list[FoundDocument]
    dropped: list[Dropped]


def last_year(settings: LiteratureSettings, of_case: int | None) -> int | None:
    """The last year that evidence may be from: the earlier one of the recipe's and the case's."""
    if settings.as_of is None:
        return None
    years = [of_case, None if settings.as_of == "case" else settings.as_of]
    return min((year for year in years if year is not None), default=None)


def filter_found(
    found: Sequence[FoundDocument], settings: LiteratureSettings, of_case: int | None
) -> Filtered:
    """Part what may be evidence from what may not.

    Args:
        found: Best first; with a refill more than `k`.
        settings: The filters.
        of_case: Last year that the case's evidence may be from.

    Returns:
        At most `k` documents that are kept. Documents below the last of those were never candidates, and are
        in neither list.
    """
    latest = last_year(settings, of_case)
    filtered = Filtered([], [])
    for document in found:
        if len(filtered.kept) == settings.k:
            break
        reason = _reason(document, settings, latest)
        if reason is None:
            filtered.kept.append(document)
        else:
            filtered.dropped.append(Dropped(document["id"], document["rank"], reason))
    return filtered


def _reason(document: FoundDocument, settings: LiteratureSettings, latest: int | None) -> str | None:
    """The first filter that a document does not pass."""
    reasons = (
        None if document["text"].strip() else "no abstract",
        _too_old(document["year"], settings.minimum_year),
        _too_new(document["year"], latest),
        _too_few(document["citations"], settings.minimum_citations),
        _other_type(document["study_types"], settings.study_types),
        _too_weak(document["study_types"], settings.minimum_strength),
    )
    return next((reason for reason in reasons if reason is not None), None)


def _too_old(year: int | None, earliest: int | None) -> str | None:
    if earliest is None or (year or 0) >= earliest:
        return None
    return f"year unknown, {earliest} is the earliest" if year is None else f"of {year}, before {earliest}"


def _too_new(year: int | None, latest: int | None) -> str | None:
    """Without a year nothing shows that a document is not newer than the question."""
    if latest is None or (year is not None and year <= latest):
        return None
    return f"year unknown, {latest} is the last" if year is None else f"of {year}, after {latest}"


def _too_few(citations: int | None, fewest: int | None) -> str | None:
    if fewest is None or (citations or 0) >= fewest:
        return None
    counted = "citations unknown" if citations is None else plural(citations, "citation")
    return f"{counted}, fewer than {fewest}"


def _other_type(types: Sequence[str], wanted: Sequence[str]) -> str | None:
    if not wanted:
        return None
    if not types:
        return "study type unknown"
    named = {name.lower() for name in types}
    return None if any(name.lower() in named for name in wanted) else "of another study type"


def _too_weak(types: Sequence[str], weakest: Strength | None) -> str | None:
    strength = strength_of(types)
    if weakest is None or at_least(strength, weakest):
        return None
    return f"kind of study {strength or 'unknown'}, weaker than {weakest}"


class FilterDocumentsInput(TypedDict):
    case_id: str
    found_documents: list[FoundDocument]


class FilterDocumentsUpdate(TypedDict):
    """Documents that may be evidence, best first."""

    kept_documents: list[FoundDocument]
    decisions: list[Decision]


async def filter_documents(state: FilterDocumentsInput, runtime: Runtime[Context]) -> FilterDocumentsUpdate:
    """Keep the documents that pass every filter; each that does not is reported with its reason."""
    settings = runtime.context.section(LiteratureSettings)
    case = runtime.context.cases[state["case_id"]]
    found = state["found_documents"]
    filtered = filter_found(found, settings, case.as_of)
    kept = [one["id"] for one in filtered.kept]
    because = f"{len(kept)} of {plural(len(kept) + len(filtered.dropped), 'document')} may be evidence"
    if filtered.dropped:
        because += f"; {len(filtered.dropped)} dropped, the first is {filtered.dropped[0].reason}"
    return {
        "kept_documents": filtered.kept,
        "decisions": decision(
            "filter_documents",
            because,
            {
                "kept": kept,
                "dropped": [asdict(one) for one in filtered.dropped],
                "as_of": last_year(settings, case.as_of),
                "minimum_year": settings.minimum_year,
                "minimum_citations": settings.minimum_citations,
                "minimum_strength": settings.minimum_strength,
            },
            # If nothing was found, the search has its own flag.
            flags=["no_document_left"] if found and not kept else [],
        ),
    }


FILTER_DOCUMENTS = NodeSpec(
    run=filter_documents,
    sections=(LiteratureSettings,),
    facts={
        "dropped": Fact(rows=lambda dropped, _: [(f"dropped {one['id']}", one["reason"]) for one in dropped]),
        **plain("kept", "as_of", "minimum_year", "minimum_citations", "minimum_strength"),
    },
    flags={"no_document_left": "no document that was found passed the filters"},
)
