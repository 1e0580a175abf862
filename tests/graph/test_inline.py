"""Routers run in the event loop's own thread."""

from __future__ import annotations

import threading
from typing import Literal, TypedDict

from langgraph.graph import END, START, StateGraph

from graph.system import inline


class _State(TypedDict):
    steps: int


async def test_a_router_runs_in_the_thread_of_the_loop_and_keeps_its_routes() -> None:
    threads = []

    def route(state: _State) -> Literal["step", "__end__"]:
        threads.append(threading.current_thread())
        return "step" if state["steps"] < 2 else "__end__"

    async def step(state: _State) -> _State:
        return {"steps": state["steps"] + 1}

    builder = StateGraph(_State)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", inline(route))
    graph = builder.compile()
    assert (await graph.ainvoke({"steps": 0}))["steps"] == 2
    assert threads == [threading.current_thread()] * 2
    targets = {edge.target for edge in graph.get_graph().edges if edge.source == "step"}
    assert targets == {"step", END}
