"""Citations for an answer that was written without: note sentences that are alike (heiDS 2025, 2.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.answer.answer_rules import numbered_sentences
from nodes.citing.citations import NO_CITATIONS, CitationSettings, attributes
from nodes.core.context import VECTORS, Context
from nodes.core.facts import LINKS, plain, whole, withheld
from nodes.core.node import NodeSpec
from nodes.core.records import (
    AlignedAnswer,
    AnswerEvidence,
    AnswerLine,
    Attribution,
    Decision,
    decision,
    same_evidence,
)
from nodes.core.wording import one_line
from ranking.attribution import PARTS, Weights, attributed, combined, part_scores
from ranking.prefixes import Floats

_KEPT = 60
"""Note sentences whose scores are kept for each answer sentence; ArchEHR-QA has 54 at most."""


class AttributeAnswerInput(TypedDict):
    """`answer_evidence` are the sentences in the prompt, in note order."""

    case_id: str
    answer: str
    answer_evidence: list[str]


class AttributeAnswerUpdate(TypedDict):
    """What the node owns.

    `attributions` holds the parts of the scores, so that other thresholds and weights need no model.
    """

    answer_sentences: list[AnswerLine]
    alignment: dict[str, list[str]]
    aligned_answer: AlignedAnswer
    evidence: dict[AnswerEvidence, list[str]]
    attributions: dict[str, list[Attribution]]
    decisions: list[Decision]


def cited_at(
    attributions: Mapping[str, Sequence[Attribution]], weights: Weights, threshold: float
) -> dict[str, list[str]]:
    """Ids that each sentence of an answer cites, the likeliest first; fewer and fewer as the threshold grows.

    Args:
        attributions: By answer sentence, as the node writes them.
        weights: Of the parts.
        threshold: From which on a sentence is cited.
    """
    links = {}
    for answer_id, pairs in attributions.items():
        reached = attributed(combined(_parts(pairs), weights), threshold)
        links[answer_id] = [pair["id"] for pair, is_cited in zip(pairs, reached, strict=True) if is_cited]
    return links


async def attribute_answer(state: AttributeAnswerInput, runtime: Runtime[Context]) -> AttributeAnswerUpdate:
    """Hold each sentence of the answer against each that was shown, in a thread."""
    context = runtime.context
    settings = context.section(CitationSettings)
    case = context.cases[state["case_id"]]
    shown = state["answer_evidence"]
    texts = {sentence.id: one_line(sentence.text) for sentence in case.sentences}
    lines = numbered_sentences(state["answer"])
    vectors = context.find(VECTORS)
    parts = await asyncio.to_thread(
        part_scores, [line["text"] for line in lines], [texts[id_] for id_ in shown], vectors
    )
    best = [_best(shown, row, settings.weights) for row in parts]
    attributions = {line["id"]: pairs for line, pairs in zip(lines, best, strict=True)}
    found = cited_at(attributions, settings.weights, settings.threshold)
    links = {answer_id: [id_ for id_ in shown if id_ in set(ids)] for answer_id, ids in found.items()}
    cited = {id_ for ids in links.values() for id_ in ids}
    evidence = [id_ for id_ in shown if id_ in cited]
    return {
        "answer_sentences": lines,
        "alignment": links,
        "aligned_answer": "generated",
        "evidence": same_evidence(evidence),
        "attributions": attributions,
        "decisions": decision(
            "attribute_answer",
            f"{plural(len(lines), 'sentence')} with citations of {len(evidence)} of the {len(shown)} shown,"
            f" from a similarity of {settings.threshold:g} on (weights {settings.weights})",
            {
                "links": links,
                "cited": evidence,
                "shown": len(shown),
                "threshold": settings.threshold,
                "weights": settings.weights.model_dump(),
                "best": {line["id"]: _total(attributions[line["id"]], settings.weights) for line in lines},
                "vectors": None if vectors is None else vectors.identity,
                "uncited_sentences": sum(not ids for ids in links.values()),
            },
            flags=[] if evidence else ["no_citations"],
        ),
    }


def _best(shown: Sequence[str], row: Floats, weights: Weights) -> list[Attribution]:
    """The likeliest pairs of one answer sentence; of equal ones the earlier in the note first."""
    order = (-combined(row, weights)).argsort(kind="stable")[:_KEPT]
    return [
        Attribution(
            id=shown[place],
            lexical=float(row[place, 0]),
            fuzzy=float(row[place, 1]),
            semantic=float(row[place, 2]),
        )
        for place in order.tolist()
    ]


def _parts(pairs: Sequence[Attribution]) -> Floats:
    rows = [(pair["lexical"], pair["fuzzy"], pair["semantic"]) for pair in pairs]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(PARTS))


def _total(pairs: Sequence[Attribution], weights: Weights) -> float:
    """The highest score, for people."""
    return round(float(combined(_parts(pairs[:1]), weights)[0]), 4) if pairs else 0.0


ATTRIBUTE_ANSWER = NodeSpec(
    run=attribute_answer,
    sections=(CitationSettings,),
    tools=(VECTORS,),
    results={
        "answer_sentences": withheld,
        "alignment": withheld,
        "aligned_answer": whole,
        "attributions": whole,
    },
    facts={
        "links": LINKS,
        **plain("cited", "shown", "threshold", "weights", "best", "vectors", "uncited_sentences"),
    },
    flags=NO_CITATIONS,
    is_off=lambda recipe: not recipe.answers or not attributes(recipe),
)
