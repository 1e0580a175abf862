"""The graph waits if votes disagree, and continues with a person's labels."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graph.system import find_system
from nodes.core.context import Context
from nodes.core.failure import NodeFailure
from tests.graph.routes import ANSWERING, facts_of, roles, route, run, times
from tests.nodes.builders import Bench, asked, by_sample, flags, labels, script

SPLIT = script(label=by_sample(labels("1"), labels("1", "2")))
PLAIN = {"votes": 3, "threshold": 2, "reflection": False}
ASKING: dict[str, Any] = {"evidence": PLAIN, "review": {"disagreement": 0.3}, "replies": SPLIT}
JUDGED = {"1": "not-relevant", "2": "essential", "3": "supplementary"}
REVIEW = {"reviewer": "Ann", "reviewed_at": "2026-01-01T00:00:00+00:00", "labels": JUDGED}


async def reviewed(context: Context, reply: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states at the wait and at the end."""
    graph = find_system("tamu").build(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "q"}}
    waits = await graph.ainvoke({"case_id": "q"}, config, context=context)
    return waits, await graph.ainvoke(Command(resume=reply), config, context=context)


async def test_a_case_whose_votes_disagree_waits_before_its_answer(bench: Bench) -> None:
    context = bench.context(**ASKING)
    graph = find_system("tamu").build(checkpointer=InMemorySaver())
    state = await graph.ainvoke({"case_id": "q"}, {"configurable": {"thread_id": "q"}}, context=context)
    (wait,) = state["__interrupt__"]
    assert wait.value["facts"] == {
        "disagreement": 0.3333,
        "limit": 0.3,
        "contested": ["2"],
        "counts": {"1": 3, "2": 2, "3": 0},
        "usable_votes": 3,
    }
    assert "answer" not in roles(context)


async def test_a_reviewed_case_goes_on_with_the_labels_of_the_reviewer(bench: Bench) -> None:
    context = bench.context(**ASKING)
    _, state = await reviewed(context, REVIEW)
    assert state["evidence"] == {"threshold": ["2"], "high_recall": ["2"], "low_recall": ["2"]}
    assert state["answer_evidence"] == ["2"]
    assert route(state)[-6:] == [
        *("choose_answer_evidence", "await_review", "choose_answer_evidence"),
        *("retrieve_answer_demonstrations", *ANSWERING),
    ]
    (facts,) = facts_of(state, "await_review")
    assert (facts["reviewer"], facts["before"], facts["changed"]) == ("Ann", ["1", "2"], ["1"])
    assert "reviewed" in flags(state)


async def test_the_wait_asks_nothing_twice(bench: Bench) -> None:
    context = bench.context(**ASKING)
    await reviewed(context, REVIEW)
    assert len(asked(context, "label")) == 3
    assert len(asked(context, "answer")) == 1


@pytest.mark.parametrize("intent_aware", [False, True])
async def test_evidence_alone_is_reviewed_too(bench: Bench, intent_aware: bool) -> None:
    evidence = PLAIN | {"intent_aware": intent_aware}
    context = bench.context(**ASKING | {"evidence": evidence, "stop_after": "evidence"})
    waits, state = await reviewed(context, REVIEW)
    assert "__interrupt__" in waits
    assert state["evidence"]["threshold"] == ["2"]
    assert state.get("answer_evidence") == (["2"] if intent_aware else None)
    assert times(state, "await_review") == 1
    assert "answer" not in roles(context)


@pytest.mark.parametrize("changes", [{"review": {"disagreement": 0.34}}, {"review": {}}])
async def test_within_the_limit_nobody_is_asked(bench: Bench, changes: dict[str, Any]) -> None:
    state = await run(bench.context(**ASKING | changes))
    assert "__interrupt__" not in state
    assert "await_review" not in route(state)


async def test_a_ranker_alone_never_asks(bench: Bench) -> None:
    state = await run(bench.context(evidence="ranker", review={"disagreement": 0}))
    assert "answer" in state


async def test_nothing_reviewed_as_essential_widens_the_evidence(bench: Bench) -> None:
    nothing = dict.fromkeys(JUDGED, "not-relevant")
    _, state = await reviewed(bench.context(**ASKING), REVIEW | {"labels": nothing})
    assert state["evidence"]["threshold"] == []
    assert "widen_evidence" in route(state)


@pytest.mark.parametrize(
    ("labels_", "said"),
    [(JUDGED | {"9": "essential"}, "'9', which is not"), ({"1": "essential"}, "'2' without")],
)
async def test_labels_of_other_sentences_are_refused(bench: Bench, labels_: Any, said: str) -> None:
    with pytest.raises(NodeFailure, match=said):
        await reviewed(bench.context(**ASKING), REVIEW | {"labels": labels_})
