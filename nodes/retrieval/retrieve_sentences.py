"""Sentences of the note for a query, as many as the scores say (heiDS 2025, sections 2.2 and 2.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np
from langgraph.runtime import Runtime
from pydantic import Field, model_validator

from cases.records import Case
from cases.texts import plural
from nodes.core.context import Context, Tool
from nodes.core.facts import CUT_QUESTION, CUT_SENTENCES, Fact, Facts, Row, plain, whole
from nodes.core.failure import demand_sentences
from nodes.core.node import NodeSpec
from nodes.core.recipe import RecipeSection
from nodes.core.records import AnswerEvidence, Decision, Retrieved, decision, raised, same_evidence
from nodes.core.scores import by_id, demand_finite, ranker_name
from ranking.cutoffs import Cutoff, Surprise, cutoff_text, select
from ranking.prefixes import Floats, ranking_order
from ranking.rankers.load import gives_logits
from ranking.rankers.prepared import Query, QueryMode, preparation, retrieval_query
from ranking.rankers.ranker import Ranker
from ranking.rankers.similarity import SIMILARITY

RETRIEVER: Tool[Ranker] = Tool("retriever")
"""Finds sentences of the note."""

RERANKER: Tool[Ranker] = Tool("reranker")
"""Reorders the results."""

ACRONYMS: Tool[Mapping[str, str]] = Tool("acronyms")
"""Long forms by acronym."""


_SHOWN_IN_TRACE = 60
"""Scores that a decision lists; the longest note of ArchEHR-QA has 54 sentences."""


class RetrievalSettings(RecipeSection):
    """Which sentences of the note are found for a query (heiDS, sections 2.2 and 2.3).

    Attributes:
        query: The patient's message, the clinician's question, or both; missing parts are left out; if none
            is left, the other part is used.
        retriever: Scorer of sentences: `similarity`, `similarity:FOLDER` of a sentence encoder,
            `bm25`, `logistic`, or the folder of a trained ranker.
        clean: `heids` takes case, punctuation and all but ASCII from the texts that are compared. The model
            reads the sentences as they are.
        expand_acronyms: Write out medical acronyms in the texts that are compared.
        acronyms: File of acronyms, in place of the packaged table.
        candidates: Number of best sentences passed to the cut-off; bounds the cost of a huge note.
        cutoff: How many of the ranking are kept; one at least.
        reranker: A second ranker, which reorders the best; None keeps the retriever's order.
        rerank_candidates: So many of the best go on to the reranker, and to the cut-off then.
    """

    options: ClassVar[Mapping[str, str]] = {"retriever": "retriever", "reranker": "reranker"}

    query: QueryMode = "both"
    retriever: str = SIMILARITY
    clean: Literal["none", "heids"] = "none"
    expand_acronyms: bool = False
    acronyms: str | None = None
    candidates: int = Field(1000, ge=1)
    cutoff: Cutoff = Surprise()
    reranker: str | None = None
    rerank_candidates: int = Field(50, ge=1)

    @model_validator(mode="after")
    def _a_table_is_read(self) -> RetrievalSettings:
        if self.acronyms is not None and not self.expand_acronyms:
            raise ValueError("acronyms names a table, but expand_acronyms is false")
        return self

    @model_validator(mode="after")
    def _probabilities_where_a_rule_needs_them(self) -> RetrievalSettings:
        last = self.reranker or self.retriever
        if self.cutoff.rule == "threshold" and not gives_logits(last):
            raise ValueError(
                f"cutoff.rule is 'threshold', but scores of {last.partition(':')[0]} are not probabilities;"
                " use 'surprise', 'autocut', 'elbow' or 'top_k'"
            )
        return self

    @property
    def ranked(self) -> int:
        """So many of the best have a place in the final ranking."""
        return self.candidates if self.reranker is None else min(self.candidates, self.rerank_candidates)


class RetrieveSentencesInput(TypedDict):
    case_id: str
    patient_question: NotRequired[str]


class RetrieveSentencesUpdate(TypedDict):
    """What the node owns.

    `retrieved` begins with the best sentence. `evidence` has the same ones in note order; if the graph
    continues to an answer, its citations replace it.
    """

    retrieved: list[Retrieved]
    evidence: dict[AnswerEvidence, list[str]]
    decisions: list[Decision]


class Ranking(NamedTuple):
    """The best sentences of a note.

    Attributes:
        order: Positions in the note, the best first.
        scores: Of these, in the same order; those of the reranker where there is one.
        kept: How many are retrieved.
        by_rule: How many the cut-off would keep without a floor.
        unrelated: How many of these the rule would keep more, if sentences that share no word with the query
            were as good as others.
        cut: Positions of sentences that were read in part.
        query_cut: Whether the query was read in part.
    """

    order: list[int]
    scores: list[float]
    kept: int
    by_rule: int
    unrelated: int
    cut: tuple[int, ...]
    query_cut: bool


async def retrieve_sentences(
    state: RetrieveSentencesInput, runtime: Runtime[Context]
) -> RetrieveSentencesUpdate:
    """Rank the note for the query, in a thread, and cut the ranking."""
    context = runtime.context
    settings = context.section(RetrievalSettings)
    case = context.cases[state["case_id"]]
    demand_sentences(case)
    # The patient's own question is used only without a message that contains it.
    patient = case.narrative.strip() or state.get("patient_question", "")

    def work() -> tuple[Query, Ranking]:
        # Texts for the model stay unchanged.
        prepare = preparation(clean=settings.clean == "heids", acronyms=context.find(ACRONYMS))
        query = retrieval_query(settings.query, patient, case.question, prepare)
        return query, _rank(context, query.text, [prepare(sentence.text) for sentence in case.sentences])

    query, ranking = await asyncio.to_thread(work)
    ids = [case.sentence_ids[position] for position in ranking.order]
    scored = by_id(ids, ranking.scores)
    retrieved = [Retrieved(id=id_, score=scored[id_]) for id_ in ids[: ranking.kept]]
    in_order = [case.sentence_ids[position] for position in sorted(ranking.order[: ranking.kept])]
    return {
        "retrieved": retrieved,
        "evidence": same_evidence(in_order),
        "decisions": decision(
            "retrieve_sentences",
            _because(context, case, ranking),
            {
                "k": ranking.kept,
                "k_of_cutoff": ranking.by_rule,
                "sentences": len(case.sentences),
                "ranked": len(ids),
                "retrieved": ids[: min(ranking.kept, _SHOWN_IN_TRACE)],
                "scores": {id_: scored[id_] for id_ in ids[:_SHOWN_IN_TRACE]},
                "query": list(query.parts),
                "cutoff": settings.cutoff.model_dump(),
                "clean": settings.clean,
                "retriever": context.tool(RETRIEVER).identity,
                "reranker": _identity(context.find(RERANKER)),
                "cut_sentences": [case.sentence_ids[position] for position in ranking.cut[:_SHOWN_IN_TRACE]],
            },
            flags=_flags(settings, query, ranking),
        ),
    }


def _rank(context: Context, query: str, texts: Sequence[str]) -> Ranking:
    settings = context.section(RetrievalSettings)
    retriever, reranker = context.tool(RETRIEVER), context.find(RERANKER)
    ranked = retriever.rank(query, texts)
    demand_finite(ranked.scores, f"ranker {retriever.identity}")
    scores = ranked.scores.astype(np.float64)
    order = ranking_order(scores)[: settings.ranked]
    cut, query_cut = set(ranked.cut_sentences), ranked.query_cut
    found = scores[order]
    unrelated = set(ranked.unrelated)
    if reranker is not None:
        again = reranker.rank(query, [texts[position] for position in order])
        demand_finite(again.scores, f"ranker {reranker.identity}")
        found = again.scores.astype(np.float64)
        cut |= {int(order[place]) for place in again.cut_sentences}
        query_cut |= again.query_cut
        unrelated = {int(order[place]) for place in again.unrelated}
        better = ranking_order(found)
        order, found = order[better], found[better]
    related = sum(position not in unrelated for position in order.tolist())
    kept, by_rule, unrelated_kept = _keep(settings.cutoff, found, related)
    return Ranking(
        order.tolist(), found.tolist(), kept, by_rule, unrelated_kept, tuple(sorted(cut)), query_cut
    )


def _keep(cutoff: Cutoff, scores: Floats, related: int) -> tuple[int, int, int]:
    """How many are kept, how many the rule would keep without its floor, and how many are unrelated of those.

    Sentences that share nothing with the query have equal scores at the end of the ranking, and rules cannot
    distinguish them: they are kept only for a fixed number, or for a minimum above the number of related
    ones, at least one.
    """
    floor = getattr(cutoff, "minimum", 1)
    kept = len(select(cutoff, scores))
    if cutoff.rule == "top_k":
        return max(kept, 1), kept, 0
    by_rule = kept if floor == 1 else len(select(cutoff.model_copy(update={"minimum": 1}), scores))
    least = min(max(floor, 1), len(scores))
    return max(min(kept, related), least), min(by_rule, related), max(0, by_rule - related)


def _identity(ranker: Ranker | None) -> str | None:
    return None if ranker is None else ranker.identity


def _flags(settings: RetrievalSettings, query: Query, ranking: Ranking) -> list[str]:
    wanted = ("patient", "clinician") if settings.query == "both" else (settings.query,)
    return raised(
        incomplete_query=any(part not in query.parts for part in wanted),
        cut_sentences=ranking.cut,
        cut_question=ranking.query_cut,
    )


def _because(context: Context, case: Case, ranking: Ranking) -> str:
    settings = context.section(RetrievalSettings)
    rankers = [
        ranker_name(ranker)
        for ranker in (context.find(RETRIEVER), context.find(RERANKER))
        if ranker is not None
    ]
    because = (
        f"{ranking.kept} of {plural(len(case.sentences), 'sentence')} by {', then '.join(rankers)},"
        f" cut-off {cutoff_text(settings.cutoff)}"
    )
    if ranking.unrelated:
        because += f"; {ranking.unrelated} more share no word with the query"
    if ranking.kept > ranking.by_rule:
        because += f"; without its floor {ranking.by_rule}"
    return because


def _ranking_rows(scores: Mapping[str, float], facts: Facts) -> list[Row]:
    """Scores from the best down, with a bar where the ranking was cut."""
    listed = [f"{id_}:{score:.2f}" for id_, score in scores.items()]
    kept = facts["k"]
    parts = [*listed[:kept], *(["|"] if kept < len(listed) else []), *listed[kept:]]
    more = facts["ranked"] - len(listed)
    return [("scores", " ".join(parts) + (f" and {more:,} more" if more else ""))]


RETRIEVE_SENTENCES = NodeSpec(
    run=retrieve_sentences,
    sections=(RetrievalSettings,),
    tools=(RETRIEVER, RERANKER, ACRONYMS),
    results={"retrieved": whole, "evidence": whole},
    facts={
        "query": Fact(rows=lambda query, _: [("query", " and ".join(query) or "none")]),
        "scores": Fact(rows=_ranking_rows),
        **plain("k", "k_of_cutoff", "sentences", "ranked", "retrieved"),
        **plain("cutoff", "clean", "retriever", "reranker", "cut_sentences"),
    },
    flags={
        "incomplete_query": "the case lacks a part of the query that the recipe asks for",
        **CUT_SENTENCES,
        **CUT_QUESTION,
    },
)
