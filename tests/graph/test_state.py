"""Nodes hand on nothing that the state does not know: LangGraph would drop it without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graph.state import State
from tests.graph.routes import GRAPH, run
from tests.nodes.builders import Bench, by_sample, case, labels, script

NODES = {
    name: spec.runnable
    for name, spec in GRAPH.builder.nodes.items()
    if not name.startswith("__error_handler__")
}
KEYS = set(get_type_hints(State))


def function(name: str) -> Any:
    return getattr(GRAPH.builder.nodes[name].runnable, "afunc")  # noqa: B009


@pytest.mark.parametrize("name", NODES)
def test_the_update_of_a_node_declares_keys_of_the_state_alone(name: str) -> None:
    update = get_type_hints(function(name))["return"]
    assert set(get_type_hints(update)) <= KEYS


@pytest.mark.parametrize("name", sorted(set(NODES) - {"reflect_on_labels"}))
def test_the_input_of_a_node_declares_keys_of_the_state_alone(name: str) -> None:
    state = get_type_hints(function(name))["state"]
    assert set(get_type_hints(state)) <= KEYS


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
        monkeypatch.setattr(spec.runnable, "afunc", recorded(name, function(name)))
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
    await reviewed(bench)
    assert set(updates) == set(GRAPH.builder.nodes)
    assert all(keys <= KEYS for keys in updates.values())
