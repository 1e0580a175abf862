"""Whole runs of a graph, told as the nodes that ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from graph.system import find_system
from nodes.core.context import Context
from serving.backends.scripted import ScriptedCall
from tests.nodes.builders import asked

ANSWERING = ["generate_answer", "check_answer"]
EVIDENCE = ["retrieve_evidence_demonstrations", "classify_intent", "label_evidence"]
GRAPH = find_system("tamu").graph


async def run(context: Context, case_id: str = "q") -> dict[str, Any]:
    """The final state."""
    return cast("dict[str, Any]", await GRAPH.ainvoke({"case_id": case_id}, context=context))


def route(state: Mapping[str, Any]) -> list[str]:
    """The nodes that ran, in order; one name for all votes of a fan-out."""
    names = [one["node"] for one in state["decisions"]]
    return [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]


def times(state: Mapping[str, Any], node: str) -> int:
    return sum(one["node"] == node for one in state["decisions"])


def facts_of(state: Mapping[str, Any], node: str) -> list[dict[str, Any]]:
    return [one["facts"] for one in state["decisions"] if one["node"] == node]


def roles(context: Context) -> set[str]:
    return {call.role for call in asked(context)}


def texts(call: ScriptedCall) -> str:
    return "\n".join(text for _, text in call.prompt)
