from __future__ import annotations

import pytest

from nodes.answer.check_answer import check_answer
from nodes.core.failure import NodeFailure
from tests.nodes.builders import TWO_SENTENCES, Bench, facts, flags, run_node

ONE_SENTENCE = "Heparin was stopped."
FAULT = "it has 1 sentence and needs 2 to 4"
REJECTED = [{"text": ONE_SENTENCE, "faults": [FAULT]}]


async def test_an_answer_that_keeps_its_rules_is_accepted(bench: Bench) -> None:
    update = await run_node(check_answer, {"draft_answer": TWO_SENTENCES}, bench.context())
    assert update["answer"] == TWO_SENTENCES
    assert flags(update) == set()


@pytest.mark.parametrize(
    "draft",
    ["Heparin was stopped [1]. Platelets fell |2|.", "Heparin was stopped[1]. Platelets fell|2|."],
)
async def test_stripped_citations_are_told(bench: Bench, draft: str) -> None:
    update = await run_node(check_answer, {"draft_answer": draft}, bench.context())
    assert update["answer"] == "Heparin was stopped. Platelets fell."
    assert facts(update)["citations_stripped"] is True


async def test_a_first_fault_is_sent_back(bench: Bench) -> None:
    update = await run_node(check_answer, {"draft_answer": ONE_SENTENCE}, bench.context())
    assert "answer" not in update
    assert update["rejected_answers"] == REJECTED


async def test_a_second_fault_is_repaired_and_flagged(bench: Bench) -> None:
    state = {"draft_answer": "One. Two. Three. Four. Five.", "rejected_answers": REJECTED}
    update = await run_node(check_answer, state, bench.context())
    assert update["answer"] == "One. Two. Three. Four."
    assert "rejected_answers" not in update
    assert flags(update) == {"answer_breaks_rules"}


async def test_without_corrections_the_first_fault_is_repaired(bench: Bench) -> None:
    context = bench.context(answer={"corrections": 0})
    update = await run_node(check_answer, {"draft_answer": ONE_SENTENCE}, context)
    assert update["answer"] == ONE_SENTENCE
    assert flags(update) == {"answer_breaks_rules"}


async def test_citations_alone_are_no_answer(bench: Bench) -> None:
    state = {"draft_answer": "|1,2| [3]", "rejected_answers": REJECTED}
    with pytest.raises(NodeFailure) as caught:
        await run_node(check_answer, state, bench.context())
    assert caught.value.error_class == "invalid_output"
