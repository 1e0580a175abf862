"""What a reranker learns from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.data.pairs import _print
from evals.search.questions import load_questions
from evals.search.retrievers import RetrieverName, Retrievers
from evals.search.training_pairs import (
    PairCounts,
    PairOptions,
    hard_negatives,
    shuffled,
    write_training_examples,
)
from ranking.readers.load import load_examples
from retrieval.corpus.corpus import Corpus
from tests.evals.search.conftest import Backwards


async def written(
    corpus: Path,
    claims: Path,
    out: Path,
    retriever: RetrieverName = "words",
    negatives: int = 4,
    seed: int = 1,
) -> tuple[list[dict[str, Any]], PairCounts]:
    retrievers = Retrievers(Corpus.open(corpus), Backwards())
    questions = load_questions([claims]).questions
    options = PairOptions(retriever, negatives, seed)
    counts = await write_training_examples(out, retrievers, questions, options, lambda done: None)
    return [json.loads(line) for line in out.read_text().splitlines()], counts


async def test_an_example_holds_relevant_documents_and_hard_ones(
    corpus: Path, claims: Path, tmp_path: Path
) -> None:
    (mint, honey, _), counts = await written(corpus, claims, tmp_path / "pairs.jsonl")
    assert (len(mint["sentences"]), sum(mint["labels"])) == (6, 2)
    marked = {text for text, label in zip(mint["sentences"], mint["labels"], strict=True) if label}
    assert marked == {"On mint. Study 1 of mint again .", "On mint. Study 2 of mint again again ."}
    assert sum(honey["labels"]) == 1, "what the corpus does not hold is left out"
    assert (counts.questions, counts.without_relevant, counts.missing) == (3, 1, 2)
    assert (counts.positives, counts.negatives) == (4, 12)


async def test_a_relevant_document_that_the_search_misses_is_there_all_the_same(
    corpus: Path, claims: Path, tmp_path: Path
) -> None:
    lines, counts = await written(corpus, claims, tmp_path / "pairs.jsonl")
    assert any("heparin" in text for text in lines[2]["sentences"])
    assert (counts.not_found, counts.recall[1000]) == (0, 1.0), "all share the word study"


async def test_recall_is_that_of_the_search_whose_finds_are_hard(
    corpus: Path, claims: Path, tmp_path: Path
) -> None:
    _, words = await written(corpus, claims, tmp_path / "words.jsonl", "words")
    _, dense = await written(corpus, claims, tmp_path / "dense.jsonl", "dense")
    assert words.recall[10] > dense.recall[10] == pytest.approx(1 / 3), "of three, one is among the last ten"


async def test_the_file_is_read_by_what_trains(corpus: Path, claims: Path, tmp_path: Path) -> None:
    await written(corpus, claims, tmp_path / "pairs.jsonl")
    examples = load_examples([tmp_path / "pairs.jsonl"])
    assert [one.group for one in examples] == ["1", "2", "3"]
    assert examples[2].query == "Ginger study"
    assert all(any(one.labels or ()) for one in examples)


FOUND = [f"d{place}" for place in range(1000)]
GOLD = {"d0", "d3", "d500"}


def places(ids: list[str]) -> list[int]:
    return [FOUND.index(id_) for id_ in ids]


def test_half_are_from_the_first_hundred_places_and_half_from_behind() -> None:
    drawn = places(hard_negatives(FOUND, GOLD, 20, seed=1, question="q"))
    assert sum(place < 100 for place in drawn) == 10
    assert len(set(drawn)) == 20
    assert drawn == sorted(drawn)


def test_relevant_documents_are_never_drawn() -> None:
    assert not GOLD & set(hard_negatives(FOUND, GOLD, 2000, seed=1, question="q"))
    assert len(hard_negatives(FOUND, GOLD, 2000, seed=1, question="q")) == 997


def test_a_short_list_gives_what_it_has_from_the_other_half() -> None:
    assert len(hard_negatives(FOUND[:60], GOLD, 20, seed=1, question="q")) == 20
    assert places(hard_negatives(FOUND[:104], FOUND[:97], 20, seed=1, question="q")) == list(range(97, 104))


def test_a_draw_is_of_the_seed_and_the_question_alone() -> None:
    first = hard_negatives(FOUND, GOLD, 20, seed=1, question="q")
    assert first == hard_negatives(FOUND, GOLD, 20, seed=1, question="q")
    assert first != hard_negatives(FOUND, GOLD, 20, seed=2, question="q")
    assert first != hard_negatives(FOUND, GOLD, 20, seed=1, question="r")


def test_a_shuffled_list_holds_the_same_in_another_order() -> None:
    mixed = shuffled(FOUND[:20], seed=1, question="q")
    assert mixed != FOUND[:20]
    assert sorted(mixed) == sorted(FOUND[:20])


def test_the_command_prints_what_it_wrote_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    recalls = {10: [1.0, 0.5], 100: [1.0]}
    counts = PairCounts(2, 1, 3, 8, missing=4, not_found=1, recalls=recalls)
    _print(Path("pairs.jsonl"), "bm25", counts, 2)
    assert capsys.readouterr().out.splitlines() == [
        "2 questions with 3 relevant and 8 hard irrelevant documents, in pairs.jsonl",
        "recall by bm25: 0.750 at 10, 1.000 at 100; 1 relevant ones not found",
        "relevant documents that the corpus does not hold: 4",
        "questions without a relevant document, left out: 3",
        "next: evigraph train reranker --data pairs.jsonl",
    ]
    _print(Path("pairs.jsonl"), "bm25", PairCounts(2, 0, 3, 8), 0)
    assert "left out" not in capsys.readouterr().out
