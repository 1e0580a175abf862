"""What nodes are given beside models and prompts, whichever part of a recipe asks for it."""

from __future__ import annotations

from typing import Any

from runs.literature import Sources
from runs.retrieval_tools import RetrievalTools
from runs.shots import Shots


def node_tools(retrieval: RetrievalTools, sources: Sources, shots: Shots) -> dict[str, Any]:
    """Fields of the nodes' context by name; no graph has both a note to retrieve from and a corpus."""
    return {
        **retrieval._asdict(),
        "literature": sources.literature,
        "index": sources.index,
        "entailment": sources.entailment,
        "vectors": retrieval.vectors or sources.vectors,
        "shots": shots.by_type,
    }
