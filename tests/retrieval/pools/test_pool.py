"""The pool in a real Chroma, with lexical vectors."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cases.records import INTENTS, AnswerSentence, Case, Gold, Intent, LabelSource, Phrase, Sentence
from ranking.encoding.vectors import Vectors
from retrieval.embeddings import LexicalEmbedder
from retrieval.pools import folder as pool_folder
from retrieval.pools.compared import View, answer_text, evidence_text
from retrieval.pools.folder import build_pool
from retrieval.pools.neighbours import Neighbour
from retrieval.pools.pool import DemonstrationPool
from serving.protocol.errors import ModelError

VIEWS: tuple[View, ...] = ("evidence", "answer")
EMBEDDER = LexicalEmbedder(128)
WORDS = [f"word{number}" for number in range(60)]
NAMES = list(INTENTS)
QUERY = " ".join(WORDS[:9])

FULL = Case(
    id="full/1",
    narrative="My father's heart — לב תקין 🫀 —\nstopped. {braces} </case>",
    question="Why was he put on a\tventilator?",
    sentences=(Sentence("1", "Intubated.", "2", 0), Sentence("b", "Extubated.\n", None, 11)),
    phrases=(Phrase("1", "heart stopped", 4),),
    specialty="cardiology",
    note="Intubated. Extubated.",
    gold=Gold(
        labels={"1": "essential", "b": "not-relevant"},
        answer="He could not breathe.",
        answer_sentences=(
            AnswerSentence("1", "He could not.", ("1",)),
            AnswerSentence("2", "Breathe.", None),
        ),
        intent=Intent("icu_or_monitoring_necessity", "prognosis_severity", "high"),
    ),
)


def case(case_id: str, question: str, narrative: str = "", intent: str | None = None) -> Case:
    gold = Gold({"1": "essential"}, "Because.", intent=Intent(intent) if intent else None)
    return Case(case_id, narrative, question, (Sentence("1", "Stable."),), gold=gold)


def unlabelled(case_id: str) -> Case:
    return replace(case(case_id, QUERY), gold=Gold(answer="Because."))


def unanswered(case_id: str) -> Case:
    return replace(case(case_id, QUERY), gold=Gold(labels={"1": "essential"}))


def some_cases(count: int) -> list[Case]:
    draw = random.Random(3)
    cases = [
        case(
            f"c{number:03}",
            " ".join(draw.choices(WORDS, k=9)),
            " ".join(draw.choices(WORDS, k=20)),
            NAMES[number % 3],
        )
        for number in range(count)
    ]
    draw.shuffle(cases)
    return cases


async def pool_of(folder: Path, cases: Sequence[Case], source: LabelSource = "gold") -> DemonstrationPool:
    assert await build_pool(folder, cases, EMBEDDER, source) == len(cases)
    return DemonstrationPool(folder, EMBEDDER)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demonstrations") / "pool"
    asyncio.run(build_pool(folder, [*some_cases(60), FULL], EMBEDDER))
    return folder


@pytest.fixture(scope="module")
def pool(folder: Path) -> DemonstrationPool:
    return DemonstrationPool(folder, EMBEDDER)


def primary(one: Case) -> str | None:
    return one.gold.intent.primary if one.gold.intent else None


def ids(neighbours: Sequence[Neighbour]) -> list[str]:
    return [neighbour.case_id for neighbour in neighbours]


async def test_the_ranking_is_that_of_the_cosine(pool: DemonstrationPool) -> None:
    cases = [*some_cases(60), FULL]
    for view in VIEWS:
        texts = [
            evidence_text(one) if view == "evidence" else answer_text(one, primary(one)) for one in cases
        ]
        vectors, (vector,) = await EMBEDDER.aembed(texts), await EMBEDDER.aembed([QUERY])
        distances = 1 - vectors.astype(float) @ vector.astype(float)
        expected = {one.id: distance for one, distance in zip(cases, distances.tolist(), strict=True)}
        found = await pool.nearest(view, QUERY, 100)
        assert len(pool) == len(found) == 61
        assert {one.case_id: one.distance for one in found} == pytest.approx(expected, abs=1e-5)
        assert found == sorted(found, key=lambda one: (one.distance, one.case_id))


async def test_only_those_that_are_listed(pool: DemonstrationPool) -> None:
    listed = [f"c{number:03}" for number in range(0, 60, 7)]
    every = [one for one in ids(await pool.nearest("evidence", QUERY, 100)) if one in listed]
    found = await pool.nearest("evidence", QUERY, 4, among=listed, excluded=every[:1])
    assert ids(found) == every[1:5]
    of_intent = await pool.nearest("evidence", QUERY, 9, among=listed, intent=NAMES[0])
    assert {one.intent for one in of_intent} == {NAMES[0]} and {*ids(of_intent)} < {*listed}


@pytest.mark.parametrize("number", [3, 7, 16, 37])
async def test_equal_texts_are_ranked_by_id(tmp_path: Path, number: int) -> None:
    text = " ".join(WORDS[3:30])
    names = [f"{index:02}" for index in range(number)]
    pool = await pool_of(tmp_path / "pool", [case(name, text) for name in reversed(names)])
    for query in (QUERY, text, " ".join(WORDS[5:50]), "nothing of this", ""):
        found = await pool.nearest("evidence", query, number)
        assert len({neighbour.distance for neighbour in found}) == 1
        assert ids(found) == names


async def test_the_same_text_is_at_distance_zero(pool: DemonstrationPool) -> None:
    (nearest,) = await pool.nearest("evidence", evidence_text(FULL), 1)
    assert nearest == Neighbour("full/1", 0.0, "icu_or_monitoring_necessity", "prognosis_severity", "gold")
    (nearest,) = await pool.nearest("answer", answer_text(FULL, "icu_or_monitoring_necessity"), 1)
    assert (nearest.case_id, nearest.distance) == ("full/1", 0.0)


async def test_an_intent_keeps_its_own_in_their_order(pool: DemonstrationPool) -> None:
    everything = await pool.nearest("answer", QUERY, 100)
    found = await pool.nearest("answer", QUERY, 100, intent=NAMES[1])
    assert len(found) >= 20
    assert found == [neighbour for neighbour in everything if neighbour.intent == NAMES[1]]
    assert await pool.nearest("answer", QUERY, 5, intent=NAMES[1]) == found[:5]
    assert await pool.nearest("answer", QUERY, 5, intent="malignancy_concern") == []


async def test_the_excluded_are_replaced_by_the_next(pool: DemonstrationPool) -> None:
    everything = await pool.nearest("evidence", QUERY, 8)
    excluded = {everything[0].case_id, everything[2].case_id, "not there"}
    assert await pool.nearest("evidence", QUERY, 3, excluded=excluded) == [everything[n] for n in (1, 3, 4)]
    assert await pool.nearest("evidence", QUERY, 3, excluded=ids(pool.neighbours())) == []


@pytest.mark.parametrize("count", [0, -1])
async def test_none_are_asked_for(pool: DemonstrationPool, count: int) -> None:
    assert await pool.nearest("evidence", QUERY, count) == []


def test_a_case_comes_back_as_it_went_in(pool: DemonstrationPool) -> None:
    assert pool.case("full/1") == FULL
    for one in some_cases(60):
        assert pool.case(one.id) == one
    with pytest.raises(KeyError):
        pool.case("not there")


def test_all_neighbours_are_listed_by_id(pool: DemonstrationPool) -> None:
    found = pool.neighbours()
    assert ids(found) == sorted([*(one.id for one in some_cases(60)), "full/1"])
    assert {one.distance for one in found} == {0.0}


async def test_a_case_without_an_intent_has_none(tmp_path: Path) -> None:
    pool = await pool_of(tmp_path / "pool", [case("1", "Why?")], "weak")
    assert pool.neighbours() == [Neighbour("1", 0.0, None, None, "weak")]


async def test_a_case_serves_where_it_has_something_to_show(tmp_path: Path) -> None:
    pool = await pool_of(tmp_path / "pool", [unlabelled("a"), unanswered("b"), case("c", QUERY)])
    assert len(pool) == 3
    assert ids(await pool.nearest("evidence", QUERY, 9)) == ["b", "c"]
    assert ids(await pool.nearest("answer", QUERY, 9)) == ["a", "c"]
    assert ids(pool.neighbours()) == ["a", "b", "c"]
    assert pool.case("a") == unlabelled("a")
    assert pool.case("b") == unanswered("b")
    assert pool.twins(case("new", QUERY)) == {"new", "a", "b", "c"}


async def test_a_pool_may_lack_one_kind(tmp_path: Path) -> None:
    pool = await pool_of(tmp_path / "pool", [unlabelled("a")])
    assert await pool.nearest("evidence", QUERY, 3) == []
    assert ids(await pool.nearest("answer", QUERY, 3)) == ["a"]


def test_twins_are_found_by_id_and_by_text(pool: DemonstrationPool) -> None:
    spaced = replace(
        FULL, id="other", question=f"  {FULL.question.upper()} ", narrative=FULL.narrative.replace(" ", "\n ")
    )
    assert pool.twins(FULL) == {"full/1"}
    assert pool.twins(spaced) == {"other", "full/1"}
    assert pool.twins(replace(FULL, question="Something else?")) == {"full/1"}
    assert pool.twins(replace(FULL, id="other", question="Something else?")) == {"other"}


async def test_several_twins_are_all_found(tmp_path: Path) -> None:
    cases = [
        case("a", "Why now?", "I fell."),
        case("b", "why NOW?", "I  fell."),
        case("c", "Why then?", "I fell."),
    ]
    pool = await pool_of(tmp_path / "pool", cases)
    assert pool.twins(case("new", "Why now?", "I fell.")) == {"new", "a", "b"}


async def test_the_hash_is_that_of_the_cases(tmp_path: Path) -> None:
    cases = some_cases(4)
    one = await pool_of(tmp_path / "one", cases)
    same = await pool_of(tmp_path / "same", cases[::-1])
    other = await pool_of(tmp_path / "other", [*cases[1:], replace(cases[0], note="Another.")])
    assert one.sha256 == same.sha256 != other.sha256


async def test_a_rebuilt_pool_holds_the_new_cases(tmp_path: Path) -> None:
    before = await pool_of(tmp_path / "pool", some_cases(5))
    after = await pool_of(tmp_path / "pool", [case("new", QUERY), case("newer", QUERY)])
    assert (len(before), len(after)) == (5, 2)
    assert ids(after.neighbours()) == ["new", "newer"]
    assert after.case("new") == case("new", QUERY)
    assert ids(await after.nearest("evidence", QUERY, 9)) == ["new", "newer"]
    assert [path.name for path in tmp_path.iterdir()] == ["pool"]


class Failing(LexicalEmbedder):
    """Breaks down at its second batch."""

    calls = 0

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        if self.calls > 1:
            raise RuntimeError("out of memory")
        return await super().aembed(texts)


async def test_a_failed_build_leaves_the_pool_that_was_there(tmp_path: Path) -> None:
    await build_pool(tmp_path / "pool", some_cases(5), EMBEDDER)
    with pytest.raises(RuntimeError, match="out of memory"):
        await build_pool(tmp_path / "pool", [case("new", QUERY)], Failing(128))
    assert len(DemonstrationPool(tmp_path / "pool", EMBEDDER).neighbours()) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["pool"]


async def refused(folder: Path, cases: Sequence[Case] = (FULL,)) -> str:
    with pytest.raises(ModelError) as caught:
        await build_pool(folder, cases, EMBEDDER)
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds other files" in await refused(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


async def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pool").write_text("mine")
    await refused(tmp_path / "pool")
    assert (tmp_path / "pool").read_text() == "mine"


async def test_a_rebuilt_pool_leaves_no_old_store_and_all_other_files(tmp_path: Path) -> None:
    await build_pool(tmp_path, [FULL], EMBEDDER)
    (tmp_path / "notes.txt").write_text("mine")
    await build_pool(tmp_path, [FULL], EMBEDDER)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert len(list(tmp_path.glob("store-*"))) == 1


async def test_a_chroma_store_of_someone_else_is_not_replaced(tmp_path: Path) -> None:
    pool_folder._client(tmp_path).create_collection("recipes", embedding_function=None)
    await refused(tmp_path)
    assert [one.name for one in pool_folder._client(tmp_path).list_collections()] == ["recipes"]


async def test_a_pool_needs_cases(tmp_path: Path) -> None:
    assert "no annotated cases" in await refused(tmp_path / "pool", [])
    assert not (tmp_path / "pool").exists()


def opening(folder: Path, dimensions: int = 128) -> str:
    with pytest.raises(ModelError) as caught:
        DemonstrationPool(folder, LexicalEmbedder(dimensions))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_vectors_of_another_embedder_are_refused(folder: Path) -> None:
    message = opening(folder, 64)
    assert "embedded by lexical:128" in message
    assert "uses lexical:64" in message


def test_a_pool_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    assert "evigraph demos build" in opening(tmp_path)
    assert list(tmp_path.iterdir()) == []


def empty_store(folder: Path) -> None:
    (folder / "store-1").mkdir()
    pool_folder._client(folder / "store-1")


def damaged_store(folder: Path) -> None:
    (folder / "store-1").mkdir()
    (folder / "store-1" / "chroma.sqlite3").write_text("not a database " * 100)


@pytest.mark.parametrize(
    ("store", "manifest"),
    [
        (empty_store, '{"store": "store-1"}'),
        (damaged_store, '{"store": "store-1"}'),
        (Path.touch, "{"),
    ],
)
def test_a_damaged_pool_is_named(tmp_path: Path, store: Callable[[Path], None], manifest: str) -> None:
    store(tmp_path)
    (tmp_path / "pool.json").write_text(manifest)
    assert "not a complete demonstration pool" in opening(tmp_path)


async def test_texts_without_words_are_ranked_last(tmp_path: Path) -> None:
    pool = await pool_of(tmp_path / "pool", [case("empty", ""), case("same", QUERY)])
    found = await pool.nearest("evidence", QUERY, 2)
    assert [(one.case_id, one.distance) for one in found] == [("same", 0.0), ("empty", 1.0)]
    assert not any(np.isnan(one.distance) for one in await pool.nearest("evidence", "", 2))


def test_chroma_sends_no_telemetry(tmp_path: Path) -> None:
    assert pool_folder._client(tmp_path).get_settings().anonymized_telemetry is False


WEAK = replace(case("w", QUERY), gold=Gold({"1": "essential"}, "Because.", label_source="weak"))


def sources(pool: DemonstrationPool) -> dict[str, str]:
    return {one.case_id: one.source for one in pool.neighbours()}


async def test_each_case_says_who_labelled_it(tmp_path: Path) -> None:
    assert await build_pool(tmp_path / "pool", [case("g", QUERY), WEAK], EMBEDDER) == 2
    pool = DemonstrationPool(tmp_path / "pool", EMBEDDER)
    assert sources(pool) == {"g": "gold", "w": "weak"}
    assert [pool.case(id_).gold.label_source for id_ in ("g", "w")] == ["gold", "weak"]


async def test_all_cases_of_a_pool_can_be_called_weak(tmp_path: Path) -> None:
    pool = await pool_of(tmp_path / "pool", [case("g", QUERY), WEAK], "weak")
    assert sources(pool) == {"g": "weak", "w": "weak"}


async def test_weak_labels_cannot_be_called_gold(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="case 'w' has weak labels by its key"):
        await build_pool(tmp_path / "pool", [case("g", QUERY), WEAK], EMBEDDER, "gold")
    assert not (tmp_path / "pool").exists()


async def test_the_mark_changes_nothing_of_a_pool_of_gold(tmp_path: Path) -> None:
    pool = await pool_of(tmp_path / "pool", [case("g", QUERY)])
    (document,) = pool._stored["evidence"].get()["documents"] or []
    assert "label_source" not in document


class Counting(LexicalEmbedder):
    """Counts the texts that it embeds."""

    def __init__(self) -> None:
        super().__init__(128)
        self.texts = 0

    async def aembed(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return await super().aembed(texts)


@pytest.mark.parametrize(("kept", "embedded"), [(3, 3), (2, 6)])
async def test_texts_are_embedded_once_as_long_as_their_vectors_have_room(
    folder: Path, kept: int, embedded: int
) -> None:
    embedder = Counting()
    opened = DemonstrationPool(folder, embedder)
    (vector,) = await EMBEDDER.aembed([QUERY])
    opened.remembered_bytes = kept * vector.nbytes
    for _ in range(2):
        for text in ("one", "two", "three"):
            await opened.nearest("evidence", text, 1)
    assert embedder.texts == embedded


async def test_vectors_of_a_long_run_do_not_grow(folder: Path) -> None:
    opened = DemonstrationPool(folder, EMBEDDER)
    await opened.embed_ahead([f"text {number}" for number in range(6_000)])
    kept = opened._vectors.values()
    assert sum(one.nbytes for one in kept) <= 4 * 2**20


def test_cases_of_a_long_run_do_not_grow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrieval.pools.pool._CASES_REMEMBERED", 2)
    opened = DemonstrationPool(folder, EMBEDDER)
    first, second, third = [one.case_id for one in opened.neighbours()][:3]
    for case_id in (first, second, first, third):
        assert opened.case(case_id).id == case_id
    assert list(opened._cases) == [first, third], "the one that was shown least recently is dropped"


async def test_texts_that_were_embedded_ahead_are_not_embedded_again(folder: Path) -> None:
    embedder = Counting()
    opened = DemonstrationPool(folder, embedder)
    await opened.embed_ahead(["one", "two", "one"])
    for text in ("one", "two"):
        assert len(await opened.nearest("evidence", text, 1)) == 1
    assert embedder.texts == 2
