"""Only documents of some age, weight and kind may be evidence (Vladika and Matthes 2024, section 4)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TypedDict

from langgraph.runtime import Runtime

from nodes.core.context import Context
from nodes.core.records import Decision, decision
from nodes.reading.literature_records import FoundDocument
from nodes.retrieval.document_filters import filter_found, last_year


class FilterDocumentsInput(TypedDict):
    """What the node reads."""

    case_id: str
    found_documents: list[FoundDocument]


class FilterDocumentsUpdate(TypedDict):
    """What the node owns: documents that may be evidence, best first."""

    kept_documents: list[FoundDocument]
    decisions: list[Decision]


async def filter_documents(state: FilterDocumentsInput, runtime: Runtime[Context]) -> FilterDocumentsUpdate:
    """Keep the documents that pass every filter; each that does not is told of with its reason."""
    settings = runtime.context.settings.literature
    case = runtime.context.cases[state["case_id"]]
    found = state["found_documents"]
    filtered = filter_found(found, settings, case.as_of)
    kept = [one["id"] for one in filtered.kept]
    because = f"{len(kept)} of {len(kept) + len(filtered.dropped)} documents may be evidence"
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
            # Where nothing was found, the search has said so.
            flags=["no_document_left"] if found and not kept else [],
        ),
    }
