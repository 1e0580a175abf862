"""Rerankers and the retriever together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evals.search.ensembles import Split, tuned_ensembles
from evals.search.questions import JudgedQuestion, Part
from evals.search.rankings import Rankings
from evals.search.report import MAP, NDCG, ensemble_table
from evals.search.retrievers import Scored
from storage.errors import InputError


def in_order(ids: Sequence[str]) -> list[Scored]:
    return [Scored(id_, float(len(ids) - place)) for place, id_ in enumerate(ids)]


def rankings(by_retriever: Sequence[str], by_reranker: Sequence[str], count: int = 20) -> Rankings:
    """Of each question the document that begins with `a` is relevant."""
    # Each has separate documents, or all questions would be one group.
    questions = [JudgedQuestion(str(n), f"question {n}", (f"a{n}",)) for n in range(count)]
    found = [in_order([f"{id_}{n}" for id_ in by_retriever]) for n in range(count)]
    reranked = [in_order([f"{id_}{n}" for id_ in by_reranker]) for n in range(count)]
    return Rankings(questions, {"words": found}, "words", {("mine", 4): reranked})


@pytest.mark.parametrize(("retriever", "reranker"), [("abcd", "dcba"), ("dcba", "abcd")])
def test_a_part_that_is_no_help_costs_nothing(retriever: str, reranker: str) -> None:
    made = rankings(retriever, reranker)
    ensemble = tuned_ensembles(made, ["mine"], 4, Split.of(made.questions, Part(1, 2)))["mine"]
    assert (ensemble.weights[0] > ensemble.weights[1]) == (reranker == "abcd")
    pairs = zip(made.questions, ensemble.found, strict=True)
    assert all(found[0].id in question.relevant for question, found in pairs)


def test_an_ensemble_is_better_than_both_parts_where_they_err_on_others() -> None:
    made = rankings("badc", "cadb")
    table = ensemble_table(made, ["mine"], (2, 4), Split.of(made.questions, Part(1, 2)))
    plain, reranker, ensemble = table.rows.values()
    for column in (f"{MAP} tuning", f"{MAP} test", f"{NDCG} tuning", f"{NDCG} test"):
        best = max(plain[column].interval.value, reranker[column].interval.value)
        assert best == pytest.approx(0.5 if column.startswith(MAP) else 0.631, abs=1e-3)
        assert ensemble[column].interval.value == 1.0
    assert [*table.rows][-1].startswith("mine x ")


def test_weights_are_chosen_on_the_tuning_part_alone() -> None:
    good, bad = rankings("dcba", "abcd"), rankings("abcd", "dcba")
    # The reranker is the better one for a quarter of the questions: chosen on all, weights would be others.
    split = Split.of(good.questions, Part(1, 4))
    mixed = Rankings(
        good.questions,
        {"words": _mixed(split, good.retrieved["words"], bad.retrieved["words"])},
        "words",
        {("mine", 4): _mixed(split, good.reranked["mine", 4], bad.reranked["mine", 4])},
    )
    table = ensemble_table(mixed, ["mine"], (4,), split)
    plain, *_, ensemble = table.rows.values()
    assert [*table.rows][-1] == "mine x 1 + retriever x 0"
    assert ensemble[f"{MAP} tuning"].interval.value == 1.0
    assert ensemble[f"{MAP} test"].interval.value == 0.25
    assert plain[f"{MAP} test"].interval.value == 1.0


def _mixed(
    split: Split, tuning: Sequence[Sequence[Scored]], test: Sequence[Sequence[Scored]]
) -> list[list[Scored]]:
    triples = zip(split.tuning, tuning, test, strict=True)
    return [list(first if within else second) for within, first, second in triples]


def test_a_split_that_leaves_no_test_is_refused() -> None:
    with pytest.raises(InputError, match="none is left to test"):
        Split.of(rankings("abcd", "abcd").questions, Part(1, 1))
