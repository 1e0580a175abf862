"""Labels from votes: essential iff at least T votes agree (TAMU 2026, equation 22), or by a rule."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np
from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import VOTE_COUNTS, Fact, plain, scores_by_id, whole
from nodes.core.node import NodeSpec
from nodes.core.records import AnswerEvidence, Decision, Vote, decision, same_evidence
from nodes.core.scores import by_id
from nodes.evidence.reply_forms import mean_confidence
from nodes.evidence.rule import EvidenceRule, Judged, judge, log_odds
from nodes.evidence.settings import EvidenceSettings, VoteSettings


class AggregateVotesInput(TypedDict):
    """Reflected votes are absent without reflection."""

    case_id: str
    votes: NotRequired[list[Vote]]
    reflected_votes: NotRequired[list[Vote]]
    asked_votes: NotRequired[int]
    ranker_vote: NotRequired[Vote]
    ranker_scores: NotRequired[dict[str, float]]


class AggregateVotesUpdate(TypedDict):
    """Counts for every sentence, and the sentences of each evidence setting.

    `label_confidence` is the mean P(essential) over the votes, there if any vote told one;
    `case_confidence` the share of right labels that a calibrated rule expects.
    """

    vote_counts: dict[str, int]
    usable_votes: int
    evidence: dict[AnswerEvidence, list[str]]
    label_confidence: NotRequired[dict[str, float | None]]
    case_confidence: NotRequired[float]
    decisions: list[Decision]


def count_votes(
    votes: Sequence[Vote], sentence_ids: Sequence[str], ranked: Vote | None = None, weight: int = 0
) -> dict[str, int]:
    """How many votes call each sentence essential; every sentence has a count.

    Args:
        votes: Of the model.
        sentence_ids: In note order.
        ranked: A ranker's vote.
        weight: Votes that it counts for.
    """
    assert len({vote["vote"] for vote in votes}) == len(votes), "a vote would count twice"
    named = Counter(id_ for vote in votes for id_ in vote["essential"])
    if ranked is not None:
        named.update(dict.fromkeys(ranked["essential"], weight))
    return {id_: named[id_] for id_ in sentence_ids}


def select(counts: Mapping[str, int], at_least: int) -> list[str]:
    """Ids with at least so many votes, in note order."""
    return [id_ for id_, count in counts.items() if count >= at_least]


def scaled_threshold(threshold: int, usable: int, wanted: int) -> int:
    """T for fewer votes than wanted: the same share of them, rounded up; never below 1.

    A vote that failed is missing. Holding T fixed would count it as "not essential".
    """
    return max(1, math.ceil(threshold * usable / wanted))


def effective_threshold(settings: VoteSettings, usable: int, asked: int) -> int:
    """T where votes of the model have failed; `usable` and `asked` count those.

    Votes that were not requested are not missing: T still refers to all R.
    """
    failed = asked - usable
    assert failed >= 0, f"{usable} usable votes of {asked}"
    return scaled_threshold(settings.vote_threshold, settings.all_votes - failed, settings.all_votes)


async def aggregate_votes(state: AggregateVotesInput, runtime: Runtime[Context]) -> AggregateVotesUpdate:
    """Count, and apply the threshold and the high- and low-recall settings."""
    settings = runtime.context.section(VoteSettings)
    sentence_ids = runtime.context.cases[state["case_id"]].sentence_ids
    votes = state.get("reflected_votes") or state.get("votes", [])
    asked = state.get("asked_votes", settings.most_votes)
    threshold = effective_threshold(settings, len(votes), asked)
    ranked, weight = state.get("ranker_vote"), settings.ranker_weight
    counts = count_votes(votes, sentence_ids, ranked, weight)
    usable = len(votes) + weight
    evidence: dict[AnswerEvidence, list[str]] = {
        "threshold": select(counts, threshold),
        "high_recall": select(counts, 1),
        "low_recall": select(counts, max(1, usable - 1)),
    }
    told = [vote["confidence"] for vote in votes if "confidence" in vote]
    confidence = mean_confidence(told, sentence_ids) if told else None
    rule, judged = _rule(runtime.context), None
    if rule is not None:
        model = log_odds(sentence_ids, count_votes(votes, sentence_ids), len(votes), confidence)
        scores = state.get("ranker_scores", {})
        ranker = np.array([scores[id_] for id_ in sentence_ids]) if scores else None
        judged = judge(rule, model if votes else None, ranker)
        evidence = same_evidence([sentence_ids[position] for position in judged.chosen])
    chosen = evidence["threshold"]
    because = f"{len(chosen)} of {plural(len(sentence_ids), 'sentence')} "
    if rule is not None:
        because += f"by the rule {rule}"
    else:
        by_votes = _by_votes(threshold, usable, asked + weight, weight)
        because += by_votes if votes else "are the ranker's selection"
    facts: dict[str, Any] = {
        "counts": counts,
        "usable_votes": usable,
        "threshold": threshold,
        "essential": chosen,
    }
    if weight:
        facts["ranker_votes"] = weight
    if settings.adaptive:
        saved = settings.most_votes - asked
        because += f"; asked {asked} of at most {plural(settings.most_votes, 'vote')}; {saved} saved"
        facts |= {"asked_votes": asked, "saved_votes": saved}
    update = AggregateVotesUpdate(vote_counts=counts, usable_votes=usable, evidence=evidence, decisions=[])
    if confidence is not None:
        update["label_confidence"] = facts["label_confidence"] = confidence
    if judged is not None:
        facts |= _judged_facts(judged, sentence_ids)
        if judged.confidence is not None:
            update["case_confidence"] = judged.confidence
    update["decisions"] = decision(
        "aggregate_votes", because, facts, flags=[] if chosen else ["no_essential_sentence"]
    )
    return update


def _by_votes(threshold: int, usable: int, asked: int, of_ranker: int) -> str:
    named = plural(usable, "vote") if usable == asked else f"{usable} usable of {plural(asked, 'vote')}"
    ranker = f" ({of_ranker} of them the ranker's)" if of_ranker else ""
    return f"have at least {threshold} of {named}{ranker}"


def _rule(context: Context) -> EvidenceRule | None:
    """Rule of the recipe, if its system has one."""
    settings = context.settings.find_section(EvidenceSettings)
    return settings.rule if settings is not None else None


def _judged_facts(judged: Judged, sentence_ids: Sequence[str]) -> dict[str, Any]:
    facts: dict[str, Any] = {"sums": by_id(sentence_ids, judged.sums)}
    if judged.probabilities is not None:
        facts["probabilities"] = by_id(sentence_ids, judged.probabilities)
        facts["case_confidence"] = judged.confidence
    return facts


AGGREGATE_VOTES = NodeSpec(
    run=aggregate_votes,
    role="vote_count",
    sections=(VoteSettings,),
    results={"vote_counts": whole, "usable_votes": whole, "label_confidence": whole, "evidence": whole},
    facts={
        "counts": VOTE_COUNTS,
        **plain("usable_votes", "threshold", "essential", "ranker_votes"),
        **plain("asked_votes", "saved_votes", "label_confidence", "sums"),
        "probabilities": scores_by_id("P by rule"),
        "case_confidence": Fact(rows=lambda value, _: [("confidence", f"{value:.4f}")]),
    },
    flags={"no_essential_sentence": "no sentence had enough votes"},
)
