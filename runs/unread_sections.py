"""Values of a recipe that no node of its graph reads: to accept them would be to ignore them in silence."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from graph.recipe import Recipe, RecipeError, differing_fields

_READERS: Mapping[str, frozenset[str]] = {
    "evidence": frozenset(
        {"label_evidence", "label_from_answer", "rank_evidence", "check_votes", "aggregate_votes"}
    ),
    "retrieval": frozenset({"retrieve_sentences"}),
    "citation": frozenset({"validate_citations", "attribute_answer"}),
    "literature": frozenset({"search_literature", "filter_documents"}),
    "reading": frozenset({"select_passages", "read_passages"}),
    "verdict": frozenset({"aggregate_verdict", "explain_verdict"}),
    "documents": frozenset({"retrieve_documents", "adopt_snippets"}),
    "exact": frozenset({"answer_exactly"}),
    "ideal": frozenset({"answer_ideally"}),
}
"""Nodes that read a section; where a graph has none of them, the section has to be as it is by default."""

_NO_DEMONSTRATIONS = frozenset(
    {
        "__start__",
        "adopt_patient_question",
        "retrieve_sentences",
        "generate_cited_answer",
        "validate_citations",
        "generate_uncited_answer",
        "check_answer",
        "attribute_answer",
        "search_literature",
        "filter_documents",
        "select_passages",
        "read_passages",
        "aggregate_verdict",
        "explain_verdict",
        "reformulate_question",
        "retrieve_documents",
        "rerank_documents",
        "rerank_by_model",
        "combine_rankings",
        "select_snippets",
        "adopt_snippets",
        "answer_exactly",
        "aggregate_exact_answers",
        "answer_ideally",
    }
)
"""Nodes that look for no demonstrations; any other may."""


def refuse_unread_sections(recipe: Recipe, nodes: Collection[str], origin: str) -> None:
    """Hold a recipe's sections against the nodes of its graph.

    Raises:
        RecipeError: Names a value that nobody would read.
    """
    values = recipe.model_dump(mode="json")
    untouched = Recipe(system=recipe.system).model_dump(mode="json")
    for section, readers in _READERS.items():
        differing = differing_fields(untouched[section], values[section])
        if differing and readers.isdisjoint(nodes):
            field = f"{section}.{differing[0]}"
            value = values[section]
            for part in differing[0].split("."):
                value = value[part] if isinstance(value, dict) else value
            raise RecipeError(
                f"recipe {origin}: {field} is {value!r}, but the graph {recipe.system!r} has no node that"
                f" reads it; leave out {field}"
            )


def shows_demonstrations(nodes: Collection[str]) -> bool:
    """Whether any node of a graph may look for demonstrations."""
    return not _NO_DEMONSTRATIONS.issuperset(nodes)
