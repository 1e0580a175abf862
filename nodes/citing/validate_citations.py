"""Check that the answer cites only shown sentences and keeps its limits; else retry once, then repair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.answer.answer_rules import AnswerRules, broken_limits
from nodes.answer.check_answer import BREAKS_RULES
from nodes.citing.citations import (
    NO_CITATIONS,
    CitationSettings,
    CitedAnswer,
    CitedSentence,
    attributes,
    keep_within,
    read_citations,
    word_count,
)
from nodes.core.context import Context
from nodes.core.facts import LINKS, plain, whole, withheld
from nodes.core.failure import NodeFailure
from nodes.core.node import NodeSpec
from nodes.core.records import (
    AlignedAnswer,
    AnswerEvidence,
    AnswerLine,
    Decision,
    decision,
    raised,
    same_evidence,
)
from nodes.core.written_text import Attempt, rule_breaks


class ValidateCitationsInput(TypedDict):
    draft_answer: str
    answer_evidence: list[str]
    rejected_answers: NotRequired[list[Attempt]]


class ValidateCitationsUpdate(TypedDict):
    """All but `rejected_answers` is set once the answer is accepted.

    `answer` is without citations; those of its sentences are in `alignment`, in note order, and all of them
    are the `evidence`.
    """

    answer: NotRequired[str]
    answer_sentences: NotRequired[list[AnswerLine]]
    alignment: NotRequired[dict[str, list[str]]]
    aligned_answer: NotRequired[AlignedAnswer]
    evidence: NotRequired[dict[AnswerEvidence, list[str]]]
    rejected_answers: NotRequired[list[Attempt]]
    decisions: list[Decision]


def citation_faults(read: CitedAnswer, rules: AnswerRules, *, count_citations: bool) -> list[str]:
    """Faults that cannot be repaired without loss, in words that can be quoted to the model.

    Misplaced, repeated or unknown citations are none: they are repaired without a call.
    """
    sentences = read.sentences
    if not sentences:
        return ["it is empty"]
    words = word_count(sentences, count_citations=count_citations)
    counted = ", citations counted," if count_citations else ""
    faults = broken_limits(words, len(sentences), rules, counted)
    if not sentences[-1].whole:
        faults.append("it does not end with a whole sentence")
    if not read.cited:
        faults.append("it does not cite the note: put |id| after each sentence, with ids of the note")
    return faults


async def validate_citations(
    state: ValidateCitationsInput, runtime: Runtime[Context]
) -> ValidateCitationsUpdate:
    """Accept with citations in their place, send back with the faults quoted, or repair."""
    rules = runtime.context.section(AnswerRules)
    count_citations = runtime.context.section(CitationSettings).count_citations
    read = read_citations(state["draft_answer"], state["answer_evidence"])
    faults = citation_faults(read, rules, count_citations=count_citations)
    rejected = rule_breaks(state.get("rejected_answers", []))
    facts = {
        "faults": faults,
        "words": word_count(read.sentences, count_citations=count_citations),
        "unknown_ids": len(read.unknown),
        "malformed_citations": read.malformed,
    }
    quoted = "; ".join(faults)
    if faults and len(rejected) < rules.corrections:
        return {
            "rejected_answers": [Attempt(text=state["draft_answer"], faults=faults)],
            "decisions": decision(
                "validate_citations", f"sent back: {quoted}", {**facts, "verdict": "sent_back"}
            ),
        }
    kept = keep_within(read.sentences, rules, count_citations=count_citations)
    if not kept:
        raise NodeFailure("invalid_output", "the answer is empty once its citations are taken out")
    lines = [AnswerLine(id=str(number), text=one.text) for number, one in enumerate(kept, start=1)]
    links = {line["id"]: list(one.cited) for line, one in zip(lines, kept, strict=True)}
    cited = {id_ for ids in links.values() for id_ in ids}
    evidence = [id_ for id_ in state["answer_evidence"] if id_ in cited]
    return {
        "answer": " ".join(line["text"] for line in lines),
        "answer_sentences": lines,
        "alignment": links,
        "aligned_answer": "generated",
        "evidence": same_evidence(evidence),
        "decisions": decision(
            "validate_citations",
            _because(read, kept, evidence, faults),
            {
                **facts,
                "verdict": "repaired" if faults else "accepted",
                "links": links,
                "cited": evidence,
                "uncited_sentences": sum(not ids for ids in links.values()),
                "dropped_answer_sentences": len(read.sentences) - len(kept),
            },
            flags=raised(
                answer_breaks_rules=faults,
                no_citations=not evidence,
                unknown_citations=read.unknown,
                malformed_citations=read.malformed,
            ),
        ),
    }


def _because(
    read: CitedAnswer, kept: Sequence[CitedSentence], evidence: Sequence[str], faults: Sequence[str]
) -> str:
    because = f"{plural(len(kept), 'sentence')} with citations of {len(evidence)} of the note"
    if faults:
        because = f"accepted with a flag: {'; '.join(faults)}. {because}"
    if read.unknown:
        because += f"; {len(read.unknown)} ids that were not shown were dropped"
    if read.malformed:
        because += f"; {read.malformed} malformed citations were taken out"
    return because


VALIDATE_CITATIONS = NodeSpec(
    run=validate_citations,
    sections=(AnswerRules, CitationSettings),
    results={
        "answer": withheld,
        "answer_sentences": withheld,
        "alignment": withheld,
        "aligned_answer": whole,
    },
    facts={
        "links": LINKS,
        **plain("faults", "words", "unknown_ids", "malformed_citations"),
        **plain("verdict", "cited", "uncited_sentences", "dropped_answer_sentences"),
    },
    flags={
        **BREAKS_RULES,
        **NO_CITATIONS,
        "unknown_citations": "the reply cited texts that were not shown; those citations were removed",
        "malformed_citations": "citations without a sentence id were removed from the answer",
    },
    is_off=lambda recipe: not recipe.answers or attributes(recipe),
)
