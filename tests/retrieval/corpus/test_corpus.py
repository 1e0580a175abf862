"""What is found in a corpus."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cases.formats.document_files import reader_of
from retrieval.corpus.corpus import Corpus
from retrieval.corpus.postings import terms
from storage.errors import InputError
from storage.files import Meter
from tests.retrieval.corpus.conftest import SAMPLE, Build, write_documents

QUERIES = (
    "Does marrowroot tea shorten the common cold?",
    "trial",
    "randomised trial of patients trial",
    "kidney stones and mineral water",
)


def test_documents_come_back_as_they_were_read(built: Build) -> None:
    read = list(reader_of(SAMPLE)(SAMPLE, 0, Meter()))
    corpus = built(part_size=7)
    assert list(corpus) == read
    assert [corpus.document(f"L{number:02}") for number in range(1, 25)] == read
    assert corpus.document("nobody") is None


def test_the_size_of_parts_changes_no_hit_and_no_score(built: Build) -> None:
    whole, parts = built(name="whole"), built(name="parts", part_size=5)
    assert (whole.manifest.parts, parts.manifest.parts) == (1, 5)
    for query in QUERIES:
        for k in (1, 3, 24):
            assert parts.search(query, k) == whole.search(query, k)
    assert parts.identity == whole.identity


def test_equal_scores_stay_in_the_order_of_the_corpus(built: Build, tmp_path: Path) -> None:
    documents = [{"id": str(number), "text": "fever and rash"} for number in range(9)]
    corpus = built(
        write_documents(tmp_path / "d.jsonl", [*documents, {"id": "x", "text": "cough"}]), part_size=2
    )
    assert [hit.document.id for hit in corpus.search("fever", 5)] == list("01234")


def test_a_document_without_a_word_of_the_query_is_never_found(built: Build) -> None:
    hits = built().search("marrowroot", 24)
    assert [hit.rank for hit in hits] == [1, 2, 3, 4]
    assert all(hit.score > 0 and "arrowroot" in hit.document.text for hit in hits)


@pytest.mark.parametrize("query", ["", "does it have the", "Hilft Holunder gegen Schnupfen?", "!?"])
def test_a_query_that_shares_no_word_finds_nothing(built: Build, query: str) -> None:
    assert built().search(query, 10) == []


def test_a_repeated_word_adds_up_and_order_does_not_matter(built: Build) -> None:
    corpus = built()
    once, twice = corpus.search("marrowroot", 1)[0], corpus.search("marrowroot marrowroot", 1)[0]
    assert twice.score == pytest.approx(2 * once.score)
    assert corpus.search("common cold tea", 9) == corpus.search("tea cold common", 9)


def test_min_df_leaves_rare_words_out(built: Build) -> None:
    corpus = built(min_df=5)
    assert corpus.search("marrowroot", 10) == []
    assert corpus.search("trial", 10)


def test_threads_share_a_corpus(built: Build) -> None:
    corpus = built(part_size=6)
    alone = [corpus.search(query, 10) for query in QUERIES] * 10
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: corpus.search(query, 10), QUERIES * 10)) == alone


def test_another_source_is_another_identity(built: Build, tmp_path: Path) -> None:
    other = write_documents(tmp_path / "d.jsonl", [{"id": "1", "text": "fever"}])
    assert built(name="a").identity != built(other, name="b").identity


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gone", "gone: no such folder. Build one: evigraph corpus build PATH... --out"),
        ("", ": contains no corpus. Build one"),
    ],
)
def test_a_folder_that_is_no_corpus_is_one_line(tmp_path: Path, name: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        Corpus.open(tmp_path / name)
    assert line in str(caught.value)


def test_a_lost_part_is_told(built: Build) -> None:
    corpus = built(part_size=10)
    next(corpus.folder.glob("parts/00001/scores-*.npy")).unlink()
    with pytest.raises(InputError, match="this corpus is damaged"):
        Corpus.open(corpus.folder)


def test_terms_are_found_as_texts_are(built: Build) -> None:
    corpus = built()
    found = corpus.find(terms(QUERIES[0]), 3)
    assert found.scores.tolist() == [hit.score for hit in corpus.search(QUERIES[0], 3)]
