"""The answer that most passages give, and how far they differ (Vladika and Matthes 2024, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.records import Verdict
from nodes.core.context import Context
from nodes.core.facts import Fact, plain, whole
from nodes.core.node import Column, NodeSpec
from nodes.core.records import Decision, decision, raised
from nodes.reading.settings import ReadingSettings, VerdictSettings
from nodes.reading.study_strength import strength_of
from nodes.reading.verdict_votes import count_readings, is_tied, majority, measure_disagreement, weigh
from nodes.retrieval.document_records import (
    Disagreement,
    EvidencePassage,
    FoundDocument,
    Passage,
    PassageReading,
    ReadingCounts,
)

_DIGITS = 4


class AggregateVerdictInput(TypedDict):
    """The last two are only present if a document was left."""

    case_id: str
    kept_documents: list[FoundDocument]
    passages: NotRequired[list[Passage]]
    readings: NotRequired[list[PassageReading]]


class AggregateVerdictUpdate(TypedDict):
    """Passages are in the order of reading."""

    verdict: Verdict
    reading_counts: ReadingCounts
    evidence_passages: list[EvidencePassage]
    disagreement: Disagreement
    decisions: list[Decision]


async def aggregate_verdict(
    state: AggregateVerdictInput, runtime: Runtime[Context]
) -> AggregateVerdictUpdate:
    """Count the readings."""
    settings = runtime.context.section(VerdictSettings)
    passages = join_evidence(state["kept_documents"], state.get("passages", ()), state.get("readings", ()))
    votes = weigh(passages, settings.weighting)
    verdict = majority(votes, settings.classes)
    counts = count_readings(passages)
    disagreement = measure_disagreement(passages)
    return {
        "verdict": verdict,
        "reading_counts": counts,
        "evidence_passages": passages,
        "disagreement": disagreement,
        "decisions": decision(
            "aggregate_verdict",
            _because(verdict, counts, bool(passages)),
            {
                "verdict": verdict,
                "reading_counts": counts,
                "weights": {name: round(vote, _DIGITS) for name, vote in votes.items()},
                "classes": settings.classes,
                "weighting": settings.weighting,
                "disagreement": disagreement,
                "released_behaviour": list(runtime.context.section(ReadingSettings).released),
            },
            flags=raised(
                no_evidence=not passages,
                evidence_disagrees=counts["supports"] and counts["refutes"],
                tied_readings=is_tied(votes, settings.classes),
            ),
        ),
    }


def join_evidence(
    documents: Sequence[FoundDocument], passages: Sequence[Passage], readings: Sequence[PassageReading]
) -> list[EvidencePassage]:
    """Each passage with its document and reading."""
    sources = {one["id"]: one for one in documents}
    made = {one["passage"]: one for one in readings}
    return [_joined(passage, sources[passage["document"]], made.get(passage["id"])) for passage in passages]


def _joined(passage: Passage, document: FoundDocument, made: PassageReading | None) -> EvidencePassage:
    return EvidencePassage(
        id=passage["id"],
        document=document["id"],
        title=document["title"],
        year=document["year"],
        citations=document["citations"],
        strength=strength_of(document["study_types"]),
        source=document["source"],
        rank=document["rank"],
        sentences=passage["sentences"],
        text=passage["text"],
        similarity=passage["similarity"],
        reading=made["reading"] if made else None,
        probability=made["probability"] if made else None,
    )


def _because(verdict: Verdict, counts: ReadingCounts, any_passage: bool) -> str:
    if not any_passage:
        return f"{verdict}: no evidence to read"
    missing = f", {counts['missing']} could not be read" if counts["missing"] else ""
    return (
        f"{verdict}: {counts['supports']} support, {counts['neutral']} are neutral,"
        f" {counts['refutes']} refute{missing}"
    )


def _without_texts(passages: Sequence[EvidencePassage]) -> object:
    """Drop texts of publications, as they would disclose the question."""
    return [{**one, "title": "", "text": "", "source": ""} for one in passages]


def verdict_in_words(line: Mapping[str, Any]) -> str:
    """A verdict in words; a tie is marked."""
    verdict = line["verdict"] or ""
    return f"{verdict} (a tie)" if "tied_readings" in line["flags"] else verdict


def _counts_in_words(line: Mapping[str, Any]) -> str:
    counts = line["reading_counts"]
    if not counts:
        return ""
    missing = f", {counts['missing']} missing" if counts["missing"] else ""
    return f"{counts['supports']} for, {counts['refutes']} against, {counts['neutral']} neither{missing}"


AGGREGATE_VERDICT = NodeSpec(
    run=aggregate_verdict,
    sections=(VerdictSettings, ReadingSettings),
    results={
        "verdict": whole,
        "reading_counts": whole,
        "evidence_passages": _without_texts,
        "disagreement": whole,
    },
    columns={
        "verdict": Column(verdict_in_words, counted=True),
        "readings": Column(_counts_in_words),
    },
    facts={
        "released_behaviour": Fact(
            rows=lambda names, _: [("released behaviour", ", ".join(names))] if names else []
        ),
        **plain("verdict", "reading_counts", "weights", "classes", "weighting", "disagreement"),
    },
    flags={
        "no_evidence": "there was nothing to read, so the answer says nothing about the question",
        "evidence_disagrees": "some passages speak for yes and some for no",
        "tied_readings": "another answer has as many readings, so the rule for ties decided",
    },
)
