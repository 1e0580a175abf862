"""Which reranker of documents a run opens."""

from __future__ import annotations

import pytest

from nodes.core.settings import Settings
from ranking.errors import RankerError
from runs.manifest import Manifest
from runs.retrieval_tools import load_retrieval

NODES = ["retrieve_documents", "rerank_documents"]


def wanted(**documents: object) -> Settings:
    return Settings.model_validate({"documents": documents})


def test_the_recipes_reranker_is_opened_for_the_node_that_reads_it() -> None:
    tools = load_retrieval(wanted(reranker="bm25"), NODES)
    assert tools.document_reranker is not None
    assert tools.document_reranker.identity == "bm25"
    assert tools.describe() is None, "nothing is retrieved from a note"


@pytest.mark.parametrize(
    ("recipe", "nodes"),
    [
        (wanted(), NODES),
        (wanted(reranker="no/such/folder"), ["retrieve_documents"]),
        (wanted(reranker="no/such/folder", phase="b"), NODES),
    ],
)
def test_nothing_is_opened_that_nobody_reads(recipe: Settings, nodes: list[str]) -> None:
    assert load_retrieval(recipe, nodes).document_reranker is None


def test_a_reranker_that_is_not_there_is_told_before_the_run() -> None:
    with pytest.raises(RankerError, match="there is no such folder"):
        load_retrieval(wanted(reranker="classifier:no/such/folder"), NODES)


def test_older_runs_have_none() -> None:
    assert Manifest.model_fields["document_reranker"].default is None
