"""Reviewed cases as gold: exported, read back, and shown as demonstrations."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from cases.formats.archehr_key import read_archehr_key, write_archehr_key
from cases.formats.plain_jsonl import read_jsonl
from cases.records import AnswerSentence, Case, Gold, Label
from retrieval.embeddings import connect_embedder
from retrieval.pools.folder import build_pool
from retrieval.pools.pool import DemonstrationPool
from runs.execute.demonstrations import Added, add_reviewed
from runs.record.folder import RunFolder
from runs.record.manifest import RunError
from runs.review.reviewed_gold import export_reviewed, reviewed_cases
from runs.review.reviews import Reviews, make_review
from storage.errors import InputError
from tests.evigraph import write_cases
from tests.nodes.builders import POOL
from tests.runs.waiting import Place

LABELS: dict[str, Label] = dict.fromkeys("123456", "not-relevant")
NOTE = ("Sentence 0 of note 1 on procedure 0.", "Sentence 1 of note 1 on procedure 1.")


def labels(**other: Label) -> dict[str, Label]:
    """Of six sentences, none relevant but those that are named, as `s1`."""
    return LABELS | {id_.removeprefix("s"): label for id_, label in other.items()}


async def joined(old: Path, run: RunFolder, new: Path) -> Added:
    return await add_reviewed(old, [run.path], new, embedding="lexical:64", report=print)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Of k0, a waiting case, and k1 labels and answer are reviewed; k2 has a comment, k3 nothing."""
    place = Place(tmp_path_factory.mktemp("reviewed"))
    place.start()
    place.review("k0", s2="essential", s3="supplementary")
    line = place.lines()["k1"]
    reviews = Reviews(place.run)
    reviews.add(make_review(line, reviewer="Ann", labels={}, answer=line["answer"]))
    reviews.add(make_review(line, reviewer="Bo", answer="It had to be."))
    reviews.add(make_review(place.lines()["k2"], reviewer="Bo", comment="Hard."))
    return place


@pytest.fixture(scope="module")
def run(place: Place) -> RunFolder:
    return RunFolder(place.run)


@pytest.fixture
def later(tmp_path: Path) -> RunFolder:
    """A run in which k3 alone is reviewed."""
    place = Place(tmp_path)
    place.start()
    place.review("k3")
    return RunFolder(place.run)


def test_a_key_of_reviews_is_read_back_and_holds_no_other_case(run: RunFolder, tmp_path: Path) -> None:
    export_reviewed(run, tmp_path / "gold.json")
    gold = read_archehr_key(tmp_path / "gold.json")
    assert gold == {
        "k0": Gold(labels=labels(s1="essential", s2="essential", s3="supplementary")),
        "k1": Gold(labels=labels(s1="essential"), answer="It had to be."),
    }


def test_cases_of_reviews_are_read_back_with_their_texts(run: RunFolder, tmp_path: Path) -> None:
    export_reviewed(run, tmp_path / "gold.jsonl")
    found = [case for case in read_jsonl(tmp_path / "gold.jsonl") if isinstance(case, Case)]
    assert found == reviewed_cases(run).cases
    assert [sentence.text for sentence in found[1].sentences][:2] == [*NOTE]


def test_a_file_is_not_replaced(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "gold.json").write_text("[]")
    with pytest.raises(InputError, match="exists"):
        export_reviewed(run, tmp_path / "gold.json")


def test_without_a_review_there_is_nothing_to_export(place: Place, tmp_path: Path) -> None:
    bare = RunFolder(place.run)
    bare.path = tmp_path
    with pytest.raises(RunError, match="no labels or answers reviewed yet"):
        export_reviewed(bare, tmp_path / "gold.json")


def test_what_a_review_leaves_open_stays_as_people_have_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    cited = (AnswerSentence("1", "So it was.", ("2",)),)
    own = Gold(labels=LABELS, answer="So it was.", answer_sentences=cited)
    weak = replace(own, label_source="weak")
    write_archehr_key(tmp_path / "key.json", {"k0": own, "k1": weak, "k3": weak})
    place.start(keys=(tmp_path / "key.json",))
    place.review("k0", s2="essential")
    for case_id in ("k1", "k3"):
        made = make_review(place.lines()[case_id], reviewer="Ann", answer="It had to be.")
        Reviews(place.run).add(made)
    place.review("k3")
    gold = {case.id: case.gold for case in reviewed_cases(RunFolder(place.run)).cases}
    assert gold["k0"] == replace(own, labels=labels(s1="essential", s2="essential"))
    assert gold["k1"] == Gold(answer="It had to be.")
    assert gold["k3"] == Gold(labels=labels(s1="essential"), answer="It had to be.")


def test_a_review_of_an_earlier_result_counts_and_is_named(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.start()
    line = place.lines()["k1"] | {"answer": "An earlier one."}
    Reviews(place.run).add(make_review(line, reviewer="Ann", labels={}))
    found = reviewed_cases(RunFolder(place.run))
    assert ([case.id for case in found.cases], found.stale) == (["k1"], ["k1"])
    told: list[str] = []
    asyncio.run(build_pool(tmp_path / "old", POOL, connect_embedder("lexical:64")))
    given = (tmp_path / "old", [place.run], tmp_path / "new")
    asyncio.run(add_reviewed(*given, embedding="lexical:64", report=told.append))
    assert f"{place.run}: reviewed on an earlier result of the run: 1 case" in told


def test_reviews_of_changed_case_files_are_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.start()
    place.review("k1")
    write_cases(tmp_path / "cases.jsonl", 4, sentences=7)
    with pytest.raises(RunError, match="have changed since"):
        reviewed_cases(RunFolder(place.run))


async def test_reviews_join_a_pool_with_their_source_and_are_no_demonstration_of_themselves(
    run: RunFolder, later: RunFolder, tmp_path: Path
) -> None:
    embedder = connect_embedder("lexical:64")
    (old,) = [case for case in reviewed_cases(run).cases if case.id == "k1"]
    weak = replace(old, gold=Gold(labels=LABELS, label_source="weak"))
    await build_pool(tmp_path / "old", [*POOL, weak], embedder)
    added = await joined(tmp_path / "old", run, tmp_path / "new")
    assert (added.count, added.reviewed, added.replaced) == (6, 2, ("k1",))
    pool = DemonstrationPool(tmp_path / "new", embedder)
    sources = {one.case_id: one.source for one in pool.neighbours()}
    assert sources == {**dict.fromkeys(("p1", "p2", "p3", "p4"), "gold"), "k0": "reviewed", "k1": "reviewed"}
    assert pool.case("k1").gold == old.gold
    assert "k1" in pool.twins(replace(old, id="another"))
    # A pool of a pool keeps what it knows.
    await joined(tmp_path / "new", later, tmp_path / "newer")
    newer = DemonstrationPool(tmp_path / "newer", embedder)
    assert {one.case_id: one.source for one in newer.neighbours()} == sources | {"k3": "reviewed"}


async def test_a_pool_that_runs_refer_to_is_not_replaced(run: RunFolder, tmp_path: Path) -> None:
    await build_pool(tmp_path / "old", POOL, connect_embedder("lexical:64"))
    with pytest.raises(RunError, match="choose another folder"):
        await joined(tmp_path / "old", run, tmp_path / "old")
