"""Nodes hand on nothing that the state does not know: LangGraph would drop it without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graph.system import System, find_system, systems
from nodes.core.node import NodeSpec
from nodes.evidence.reflect_on_labels import reflect_on_labels
from tests.graph.routes import GRAPH, run
from tests.nodes.builders import Bench, by_sample, case, labels, script

NODES = [
    pytest.param(system, node, id=f"{system.name}-{node.name}")
    for system in map(find_system, systems())
    for node in system.nodes
]
OF_A_FAN_OUT = {reflect_on_labels: {"vote"}}
"""Keys that a `Send` adds to the state's."""


def keys(system: System) -> set[str]:
    return set(get_type_hints(system.state))


@pytest.mark.parametrize(("system", "node"), NODES)
def test_the_update_of_a_node_declares_keys_of_the_state_alone(system: System, node: NodeSpec) -> None:
    update = get_type_hints(node.run)["return"]
    assert set(get_type_hints(update)) <= keys(system)


@pytest.mark.parametrize(("system", "node"), NODES)
def test_the_input_of_a_node_declares_keys_of_the_state_alone(system: System, node: NodeSpec) -> None:
    """What is optional may be a key of other systems, in which the node would read it."""
    state = get_type_hints(get_type_hints(node.run)["state"], include_extras=True)
    required = {name for name, hint in state.items() if get_origin(hint) is not NotRequired}
    assert required - keys(system) == OF_A_FAN_OUT.get(node.run, set())
    assert set(state) - required <= set().union(*map(keys, map(find_system, systems())))


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, set[str]]]:
    """The keys that each node really returned."""
    returned: dict[str, set[str]] = {}

    def recorded(name: str, inner: Any) -> Any:
        async def node(*args: Any, **kwargs: Any) -> Any:
            update = await inner(*args, **kwargs)
            content: Any = update.update if isinstance(update, Command) else update
            returned.setdefault(name, set()).update(content)
            return update

        return node

    for name, spec in GRAPH.builder.nodes.items():
        monkeypatch.setattr(spec.runnable, "afunc", recorded(name, getattr(spec.runnable, "afunc")))  # noqa: B009
    yield returned


async def reviewed(bench: Bench) -> None:
    graph = GRAPH.builder.compile(InMemorySaver())
    context = bench.context(
        replies=script(label=by_sample(labels("1"), labels("2"))),
        evidence={"reflection": False},
        review={"disagreement": 0},
    )
    review = {"reviewer": "Ann", "reviewed_at": "now", "labels": dict.fromkeys("123", "essential")}
    steps: list[Any] = [{"case_id": "q"}, Command(resume=review)]
    for given in steps:
        await graph.ainvoke(given, {"configurable": {"thread_id": "q"}}, context=context)


async def test_no_node_returns_a_key_that_the_state_does_not_know(
    bench: Bench, updates: dict[str, set[str]]
) -> None:
    nothing = labels()
    await run(bench.context(case(question=""), replies=script(answer="Short.")))
    await run(bench.context(replies=script(label=nothing, reflect="no")))
    await run(bench.context(case(question=""), question={"interpret": "missing"}))
    await run(bench.context(alignment={"answer": "generated"}))
    await run(bench.context(evidence={"votes": "3..9", "threshold": 5}, replies=script(label=nothing)))
    await run(bench.context(evidence={"voters": "both"}))
    await run(bench.context(negation={"check": True}))
    checked: dict[str, Any] = {
        "verification": {"check": "model", "on_unsupported": "remove"},
        "answerability": "auto",
        "relevance": {"least": 0.2},
    }
    await run(bench.context(replies=script(verify="No"), **checked))
    await run(bench.context(**checked))
    await reviewed(bench)
    assert set(updates) == set(GRAPH.builder.nodes)
    assert all(returned <= keys(find_system("tamu")) for returned in updates.values())
