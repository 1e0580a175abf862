"""A ranker's vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from nodes.core.failure import NodeFailure
from nodes.evidence.rank_evidence import rank_evidence
from nodes.evidence.settings import EvidenceSettings
from ranking.cutoffs import Cutoff, FixedThreshold, TopK
from ranking.rankers.bm25 import Bm25Ranker
from ranking.rankers.ranker import Ranked
from tests.nodes.builders import Bench, case, facts, run_node

RANKED = {"voters": "ranker"}


HALF: Cutoff = FixedThreshold(tau=0.5, fallback=False)


@dataclass
class ChosenScores:
    """Gives these scores, and remembers what it was asked."""

    scores: Sequence[float]
    cutoff: Cutoff = HALF
    cut_sentences: tuple[int, ...] = ()
    query_cut: bool = False
    asked: list[str] = field(default_factory=list)
    identity: str = "chosen@1"

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        self.asked.append(query)
        return Ranked(np.array(self.scores, dtype=np.float32), self.cut_sentences, self.query_cut)


async def test_the_cut_off_of_the_ranker_makes_its_vote(bench: Bench) -> None:
    context = bench.context(ranker=ChosenScores([0.0, -1.0, 2.0]), evidence=RANKED)
    update = await run_node(rank_evidence, {"case_id": "q"}, context)
    assert update["ranker_vote"] == {
        "vote": 0,
        "essential": ["1", "3"],
        "confidence": {"1": 0.5, "2": 0.2689, "3": 0.8808},
    }
    assert update["ranker_scores"] == {"1": 0.0, "2": -1.0, "3": 2.0}


async def test_the_recipes_cut_off_takes_the_place_of_the_rankers(bench: Bench) -> None:
    ranker = ChosenScores([0.0, -1.0, 2.0])
    context = bench.context(ranker=ranker, evidence={**RANKED, "cutoff": {"rule": "top_k", "k": 1}})
    update = await run_node(rank_evidence, {"case_id": "q"}, context)
    assert update["ranker_vote"]["essential"] == ["3"]
    assert facts(update)["cutoff"] == {"rule": "top_k", "k": 1}
    assert facts(update)["cutoff_of"] == "recipe"


async def test_the_decision_says_who_ranked_and_by_which_rule(bench: Bench) -> None:
    context = bench.context(ranker=ChosenScores([1, 1, 1], TopK(k=2)), evidence=RANKED)
    update = await run_node(rank_evidence, {"case_id": "q"}, context)
    assert facts(update)["ranker"] == "chosen@1"
    assert update["decisions"][0]["because"] == "2 of 3 sentences by chosen, cut-off top_k=2"


async def test_beside_a_model_the_vote_is_numbered_after_its_votes(bench: Bench) -> None:
    evidence = {"voters": "both", "votes": "3..9"}
    update = await run_node(rank_evidence, {"case_id": "q"}, bench.context(evidence=evidence))
    assert update["ranker_vote"]["vote"] == 9


@pytest.mark.parametrize(
    ("state", "asked"), [({}, "Why was heparin stopped?"), ({"patient_question": "P?"}, "P?")]
)
async def test_the_question_alone_is_ranked_for(bench: Bench, state: dict[str, str], asked: str) -> None:
    ranker = ChosenScores([1, 1, 1])
    await run_node(rank_evidence, {"case_id": "q", **state}, bench.context(ranker=ranker, evidence=RANKED))
    assert ranker.asked == [asked]


async def test_what_was_read_in_part_is_flagged(bench: Bench) -> None:
    ranker = ChosenScores([1, 1, 1], cut_sentences=(2,), query_cut=True)
    update = await run_node(rank_evidence, {"case_id": "q"}, bench.context(ranker=ranker, evidence=RANKED))
    assert update["decisions"][0]["flags"] == ["cut_sentences", "cut_question"]
    assert facts(update)["cut_sentences"] == ["3"]


async def test_a_note_without_sentences_is_invalid_input(bench: Bench) -> None:
    with pytest.raises(NodeFailure) as caught:
        await run_node(rank_evidence, {"case_id": "q"}, bench.context(case(note=[]), evidence=RANKED))
    assert caught.value.error_class == "invalid_input"


async def test_a_score_that_is_no_number_fails_the_case(bench: Bench) -> None:
    context = bench.context(ranker=ChosenScores([1, float("nan"), 1]), evidence=RANKED)
    with pytest.raises(NodeFailure, match="ranker chosen@1 returned NaN or infinity"):
        await run_node(rank_evidence, {"case_id": "q"}, context)


async def test_far_scores_stay_probabilities(bench: Bench) -> None:
    context = bench.context(ranker=ChosenScores([1e30, -1e30, 0]), evidence=RANKED)
    update = await run_node(rank_evidence, {"case_id": "q"}, context)
    assert update["ranker_vote"]["confidence"] == {"1": 1.0, "2": 0.0, "3": 0.5}


def test_a_threshold_on_bm25_is_refused() -> None:
    with pytest.raises(ValueError, match=r"scores of bm25 are not probabilities; use 'top_k'"):
        EvidenceSettings.model_validate({**RANKED, "ranker": "bm25", "cutoff": {"rule": "threshold"}})


async def test_bm25_ranks_by_the_words_of_the_question(bench: Bench) -> None:
    context = bench.context(ranker=Bm25Ranker(TopK(k=1)), evidence=RANKED)
    update = await run_node(rank_evidence, {"case_id": "q"}, context)
    assert update["ranker_vote"]["essential"] == ["1"]
