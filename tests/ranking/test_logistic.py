from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ranking.cutoffs import FixedThreshold, select
from ranking.encoding.vectors import Embedded, shared_vectors
from ranking.errors import RankerError
from ranking.examples import Example
from ranking.measures import count, micro
from ranking.rankers.bm25 import Bm25Ranker
from ranking.rankers.load import examples_learned, load_ranker, located
from ranking.rankers.logistic import LogisticRanker, fit_logistic
from ranking.rankers.ranker import CHECKPOINT, Ranker
from ranking.tuning import ScoredCase, Tuned, best_cutoff

NOTE = ("Heparin was stopped on day 3.", "Platelets fell to 40.", "Diet was regular.")


@dataclass(frozen=True)
class WordVectors:
    """Counts of hashed words: enough for equal words to be near."""

    identity: str = "words:64"
    most_words: int = 10**6

    def embed(self, texts: Sequence[str]) -> Embedded:
        vectors = np.full((len(texts), 64), 1e-3, dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % 64] += 1
        cut = np.array([len(text.split()) > self.most_words for text in texts], dtype=np.bool_)
        return Embedded(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), cut)


def example(number: int) -> Example:
    """Evidence is what shares the query's words, and not the last sentence."""
    words = [f"word{(number * 7 + offset) % 40}" for offset in range(8)]
    sentences = [
        " ".join(words[:5]),
        "nothing to see",
        " ".join(words[4:]),
        "other things",
        " ".join(words[:6]),
    ]
    return Example(
        f"e{number}",
        " ".join(words),
        tuple(sentences),
        (True, False, True, False, False),
        f"d{number}",
        group=f"g{number // 2}",
    )


EXAMPLES = [example(number) for number in range(40)]


@pytest.fixture(scope="module")
def fitted() -> LogisticRanker:
    return fit_logistic(EXAMPLES, vectors=WordVectors(), data="made up", licence="none")


def f1(ranker: Ranker, examples: Sequence[Example]) -> float:
    counts = []
    for one in examples:
        selected = select(ranker.cutoff, ranker.rank(one.query, one.sentences).scores)
        counts.append(count({*selected}, {*np.flatnonzero(one.labels or ()).tolist()}))
    return micro(counts, "perfect").f1


def test_what_the_features_show_is_learned(fitted: LogisticRanker) -> None:
    unseen = [example(number) for number in range(40, 50)]
    assert f1(fitted, unseen) == 1.0 > f1(Bm25Ranker(), unseen)


def test_the_record_tells_what_was_learned_from(fitted: LogisticRanker) -> None:
    origin = fitted.weights.learned_from
    assert (origin.data, origin.licence) == ("made up", "none")
    assert (origin.examples, origin.sentences, origin.evidence_sentences) == (40, 200, 80)


def test_the_cut_off_is_tuned_on_scores_of_examples_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned_on: list[Sequence[ScoredCase]] = []

    def remember(cases: Sequence[ScoredCase], *rules: Any, **options: Any) -> Tuned:
        tuned_on.append(cases)
        return best_cutoff(cases, *rules, **options)

    monkeypatch.setattr("ranking.rankers.logistic.best_cutoff", remember)
    own = EXAMPLES[0].group
    turned = [
        replace(one, labels=tuple(not label for label in one.labels or ())) if one.group == own else one
        for one in EXAMPLES
    ]
    rankers = [fit_logistic(examples, vectors=WordVectors()) for examples in (EXAMPLES, turned)]
    # What a group's own labels are does not reach the scores that its cut-off is tuned on.
    first, second = (np.asarray(cases[0].scores) for cases in tuned_on)
    np.testing.assert_array_equal(first, second)
    assert rankers[0].identity != rankers[1].identity


def test_no_sentences_give_no_scores(fitted: LogisticRanker) -> None:
    assert fitted.rank("query", []).scores.shape == (0,)


@pytest.mark.parametrize("sentences", [["one"], ["", ""], ["日本語", "\x00"], ["x"] * 1000])
def test_any_sentences_give_finite_scores(fitted: LogisticRanker, sentences: list[str]) -> None:
    assert np.isfinite(fitted.rank("", sentences).scores).all()


def test_what_was_read_in_part_is_reported(fitted: LogisticRanker) -> None:
    ranked = LogisticRanker(fitted.weights, WordVectors(most_words=2)).rank("a b c", ["a", "a b c", "b"])
    assert (ranked.cut_sentences, ranked.query_cut) == ((1,), True)


@pytest.mark.parametrize(
    ("examples", "fault"),
    [
        ([], "0 labelled examples, and no sentence is labelled as evidence: there is nothing to learn"),
        ([replace(one, labels=(False,) * 5) for one in EXAMPLES], "no sentence is labelled as evidence"),
        ([replace(one, labels=(True,) * 5) for one in EXAMPLES], "every sentence is evidence"),
        ([replace(one, group="all") for one in EXAMPLES], "1 groups of examples are too few to leave out"),
        (
            [EXAMPLES[0], *(replace(one, labels=(False,) * 5) for one in EXAMPLES[2:])],
            "all evidence, or all other sentences, are in one group",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(examples: list[Example], fault: str) -> None:
    with pytest.raises(RankerError, match=fault):
        fit_logistic(examples, vectors=WordVectors())


def test_unlabelled_examples_are_left_out(fitted: LogisticRanker) -> None:
    more = [*EXAMPLES, replace(EXAMPLES[0], id="new", labels=None)]
    assert fit_logistic(more, vectors=WordVectors()).identity == fitted.identity


def test_vectors_of_another_encoder_are_refused(fitted: LogisticRanker) -> None:
    with pytest.raises(RankerError, match="fitted on vectors of words:64, and here are those of words:65"):
        LogisticRanker(fitted.weights, WordVectors("words:65"))


@pytest.fixture(scope="module")
def packaged() -> Ranker:
    return load_ranker("logistic")


def test_the_packaged_one_ranks_without_any_training(packaged: Ranker) -> None:
    ranked = packaged.rank("Why did the platelet count fall?", NOTE)
    assert ranked.scores.argmax() == 1
    assert (ranked.cut_sentences, ranked.query_cut) == ((), False)
    assert np.isfinite(packaged.rank("\ud800", ["", "日本語 \udfff"]).scores).all()
    assert isinstance(packaged.cutoff, FixedThreshold)


def test_a_text_at_the_encoders_limit_is_whole_and_one_beyond_it_is_cut() -> None:
    text = " ".join(["the"] * 254)
    assert shared_vectors().embed([text, f"{text} end"]).cut.tolist() == [False, True]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "its folder has no ranker.json; use logistic, support, bm25, similarity, "),
        ("{", "it is not JSON"),
        ("[]", "unknown kind None in ranker.json; known: logistic"),
        ('{"kind": "forest"}', "unknown kind 'forest' in ranker.json; known: "),
        ('{"kind": "logistic"}', "encoder: Field required"),
    ],
)
def test_a_damaged_checkpoint_is_told_in_one_line(tmp_path: Path, content: str | None, fault: str) -> None:
    if content is not None:
        (tmp_path / CHECKPOINT).write_text(content)
    with pytest.raises(RankerError, match=fault) as caught:
        load_ranker(str(tmp_path))
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("coefficients", [1.0], "it needs 12 means, scales and coefficients"),
        ("features", ["cosine"], "its features are not those of this version of Evigraph; train it again"),
        ("intercept", "NaN", "intercept: "),
        ("scales", [0.0] * 12, "scales.0: "),
        ("cutoff", {"rule": "best"}, "cutoff: "),
        ("encoder", "minilm@0", "fitted on vectors of minilm@0, and here are those of minilm@"),
    ],
)
def test_a_checkpoint_that_fits_nothing_here_is_refused(
    packaged: LogisticRanker, tmp_path: Path, field: str, value: object, fault: str
) -> None:
    values = {**packaged.weights.model_dump(mode="json"), field: value}
    (tmp_path / CHECKPOINT).write_text(json.dumps(values))
    with pytest.raises(RankerError, match=fault):
        load_ranker(str(tmp_path))


def test_a_checkpoint_of_the_real_encoder_is_opened_from_its_folder(
    packaged: LogisticRanker, tmp_path: Path
) -> None:
    packaged.save(tmp_path / "mine")
    opened = load_ranker(str(tmp_path / "mine"))
    assert (opened.identity, opened.cutoff) == (packaged.identity, packaged.cutoff)


def test_an_unknown_name_names_the_choices() -> None:
    with pytest.raises(RankerError) as caught:
        load_ranker("logistics")
    assert str(caught.value) == (
        "ranker 'logistics': folder not found; use logistic, support, bm25, similarity,"
        " similarity:FOLDER of a sentence encoder, classifier:FOLDER of a cross-encoder, or the folder of a"
        " trained ranker"
    )


def test_a_packaged_name_wins_over_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("bm25", "mine"):
        (tmp_path / name).mkdir()
    assert [located(name) for name in ("bm25", "mine", "gone")] == ["bm25", str(tmp_path / "mine"), "gone"]


@pytest.mark.parametrize("name", ["bm25", "logistic"])
def test_threads_get_the_scores_that_one_gets(name: str) -> None:
    ranker = load_ranker(name)
    queries = ["heparin", "platelets", "diet"]
    alone = [ranker.rank(query, NOTE).scores for query in queries]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(lambda query: ranker.rank(query, NOTE).scores, queries))
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ('{"kind": "neural", "data": {"examples": 7}}', 7),
        ('{"kind": "neural", "data": {}}', None),
        ('{"kind": "logistic", "learned_from": {"examples": 0}}', None),
        ("[]", None),
        ("{", None),
    ],
)
def test_a_folder_tells_how_much_its_ranker_learned(tmp_path: Path, content: str, count: int | None) -> None:
    (tmp_path / CHECKPOINT).write_text(content)
    assert examples_learned(tmp_path) == count


def test_a_saved_ranker_tells_how_much_it_learned(fitted: LogisticRanker, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    assert examples_learned(tmp_path) == len(EXAMPLES)
    assert examples_learned(tmp_path / "nowhere") is None
