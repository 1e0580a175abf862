"""Ranked files: cut-offs, rows, and going on after an interruption."""

from __future__ import annotations

import json
import resource
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from ranking.cutoffs import TopK
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.rank_file import ROW, PartialFile, rank_examples, row_of
from ranking.rankers.ranker import Ranked
from storage.errors import InputError
from tests.ranking.word_ranker import SourceWordRanker, WordRanker

BEST = TopK(k=1)
MADE_BY = {"ranker": "words@1", "cutoff": "top_k=1"}


def example(number: int, **changes: object) -> Example:
    fields = {
        "id": f"e{number}",
        "query": f"word{number}",
        "sentences": ("word0 here", "word1 and word2"),
        "labels": (False, True),
        "document_id": "d",
        "group": "g",
    }
    return Example(**(fields | changes))  # type: ignore[arg-type]


EXAMPLES = [example(number) for number in range(3)]


def test_a_row_names_sentences_as_the_source_does() -> None:
    named = example(1, sentence_ids=("s1", "s2"))
    (row,) = rank_examples(WordRanker(), BEST, [named])
    assert (row.selected, row.gold, row.scores) == (("s2",), ("s2",), {"s1": -4.0, "s2": 0.0})


def test_sentences_without_ids_are_named_by_position() -> None:
    (row,) = rank_examples(WordRanker(), BEST, [example(1)])
    assert row.selected == ("1",)


def test_an_unlabelled_example_has_no_gold() -> None:
    (row,) = rank_examples(WordRanker(), BEST, [example(1, labels=None)])
    assert row.gold is None and row.labels is None


def test_scores_that_are_not_finite_name_the_example() -> None:
    ranked = Ranked(np.array([0.0, np.nan]))
    with pytest.raises(RankerError, match=r"ranker words@1, example 'e1': the score of sentence 1 is nan"):
        row_of(example(1), ranked, BEST, "words@1")


def test_a_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot be written: (File exists|Not a directory)"):
        PartialFile(tmp_path / "file" / "ranked.jsonl", MADE_BY)


def test_a_disk_that_is_full_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "ranked.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with PartialFile(path, MADE_BY) as file:
        list(islice(rank_examples(WordRanker(), BEST, EXAMPLES, file), 1))
        whole = file.partial.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, before[1]))
        try:
            with pytest.raises(InputError, match=r"\.partial: cannot be written: File too large"):
                file.append({"id": "e" * 20})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert file.partial.read_bytes() == whole
        assert len(list(rank_examples(WordRanker(), BEST, EXAMPLES, file))) == 3


def test_queries_on_one_document_are_ranked_in_one_reading() -> None:
    ranker = SourceWordRanker()
    found = list(rank_examples(ranker, BEST, EXAMPLES))
    assert ranker.readings == 1
    assert found == list(rank_examples(WordRanker(), BEST, EXAMPLES))


def test_an_interrupted_file_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ranked.jsonl"
    with PartialFile(path, MADE_BY) as file:
        list(islice(rank_examples(WordRanker(), BEST, EXAMPLES, file), 2))
    assert not path.exists()
    ranker = WordRanker()
    with PartialFile(path, MADE_BY) as file:
        rows = list(rank_examples(ranker, BEST, EXAMPLES, file))
        file.finish(ROW)
    assert ranker.queries == ["word2"]
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["e0", "e1", "e2"]
    assert rows == list(rank_examples(WordRanker(), BEST, EXAMPLES))
    assert list(path.parent.iterdir()) == [path]


def test_a_torn_line_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "ranked.jsonl"
    with PartialFile(path, MADE_BY) as file:
        list(islice(rank_examples(WordRanker(), BEST, EXAMPLES, file), 2))
    content = file.partial.read_bytes()
    file.partial.write_bytes(content[:-20])
    with PartialFile(path, MADE_BY) as file:
        assert [row.id for row in rank_examples(WordRanker(), BEST, EXAMPLES, file)] == ["e0", "e1", "e2"]


def test_another_cutoff_does_not_go_on_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ranked.jsonl"
    PartialFile(path, MADE_BY).close()
    with pytest.raises(InputError, match="was begun with another cutoff"):
        PartialFile(path, {**MADE_BY, "cutoff": "gap"})


def test_other_examples_do_not_go_on_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ranked.jsonl"
    with PartialFile(path, MADE_BY) as file:
        list(rank_examples(WordRanker(), BEST, EXAMPLES, file))
    changed = [example(0, query="another"), *EXAMPLES[1:]]
    with PartialFile(path, MADE_BY) as file, pytest.raises(InputError, match="begun with other examples"):
        list(rank_examples(WordRanker(), BEST, changed, file))


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "ranked.jsonl"
    with PartialFile(path, MADE_BY), pytest.raises(InputError, match="another process is writing it"):
        PartialFile(path, MADE_BY)


def test_a_foreign_file_in_the_place_is_left_alone(tmp_path: Path) -> None:
    partial = tmp_path / "ranked.jsonl.partial"
    partial.write_text("my own notes\n")
    with pytest.raises(InputError, match="is not a partial ranking"):
        PartialFile(tmp_path / "ranked.jsonl", MADE_BY)
    assert partial.read_text() == "my own notes\n"
