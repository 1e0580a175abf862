"""`evigraph pairs` and `evigraph rankings` as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.corpus.build import BuildOptions, build
from tests.evals.search.conftest import CLAIMS, DOCUMENTS, write_lines
from tests.evigraph import evigraph


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("search")
    build([write_lines(made / "documents.jsonl", DOCUMENTS)], made / "corpus", BuildOptions())
    write_lines(made / "claims.jsonl", CLAIMS)
    return made


def test_pairs_are_written_and_counted(folder: Path) -> None:
    ended = evigraph(
        *(
            "pairs",
            "claims.jsonl",
            "--corpus",
            "corpus",
            "--out",
            "pairs.jsonl",
            "--negatives",
            "3",
            "--json",
        ),
        folder=folder,
    )
    told = ended.summary
    assert (told["questions"], told["positives"], told["negatives"], told["left_out"]) == (3, 4, 9, 2)
    assert len((folder / "pairs.jsonl").read_text().splitlines()) == 3


def test_rankings_are_measured_drawn_and_written(folder: Path) -> None:
    ended = evigraph(
        *("rankings", "claims.jsonl", "--corpus", "corpus", "--reranker", "bm25", "--depths", "5,10"),
        *("--runs", "runs", "--html", "page.html", "--cache", "scores.sqlite"),
        folder=folder,
    )
    assert ended.code == 0, ended.err
    assert "no reranker (words)" in ended.out
    assert "4 questions with 6 relevant documents, 32 documents searched" in ended.out
    assert "relevant, and not in the corpus: 2 documents" in ended.out
    assert "without a relevant document, and left out: 1 question" in ended.out
    assert "<svg" in (folder / "page.html").read_text()
    assert (folder / "runs" / "bm25-of-10.run").is_file()
    assert (folder / "scores.sqlite").stat().st_size > 0


def test_weights_are_tuned_on_a_named_part(folder: Path) -> None:
    ended = evigraph(
        *("rankings", "claims.jsonl", "--corpus", "corpus", "--reranker", "bm25", "--tune", "1/2"),
        *("--part", "1/1"),
        folder=folder,
    )
    assert ended.code == 0, ended.err
    assert "part 1/1: 4 questions" in ended.out
    assert "chosen by MAP@10 on part 1/2" in ended.out
    assert "bm25 x " in ended.out
    assert "--html FILE writes a page" in ended.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--part", "3/2"), "invalid part: '3/2'"),
        (("--tune", "1/2"), "weights are chosen for rerankers"),
        (("--tune", "half", "--reranker", "bm25"), "--tune: invalid part: 'half'"),
        (("--depths", "10,x"), "give numbers, such as 10,100"),
        (("--depths", "0,10"), "from 1 to 1000"),
        (("--reranker", "classifier:none"), "folder not found"),
        (("--retriever", "hybrid"), "needs an index of vectors"),
        (("--index", "none"), "index"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(folder: Path, options: tuple[str, ...], words: str) -> None:
    ended = evigraph("rankings", "claims.jsonl", "--corpus", "corpus", *options, folder=folder)
    assert ended.code == 2
    assert words in ended.err
    assert "Traceback" not in ended.err
