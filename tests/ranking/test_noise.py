from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.examples import Example
from ranking.noise import NoiseSettings, add_noise

QUIET = NoiseSettings(drop=0, reorder=0, lengthen=0)
WORDS = " ".join(f"w{number}" for number in range(30))


def example(id_: str, query: str, *labels: bool, document: str = "d") -> Example:
    return Example(id_, query, ("s",) * len(labels), labels, document, id_)


def noisy_words(settings: NoiseSettings, query: str = WORDS, seed: int = 1) -> list[str]:
    (noisy,) = add_noise([example("1", query, True)], settings, seed)
    return noisy.query.split()


@given(st.text(), st.integers(0, 99))
def test_no_noise_is_the_identity(query: str, seed: int) -> None:
    examples = [example("1", query, True, False), example("2", "other", False, True)]
    assert add_noise(examples, QUIET, seed) == examples


@given(st.integers(0, 99), st.floats(0, 1))
def test_dropping_keeps_order_and_at_least_one_token(seed: int, rate: float) -> None:
    kept = noisy_words(QUIET.model_copy(update={"drop": rate}), seed=seed)
    assert kept
    assert kept == [word for word in WORDS.split() if word in kept]


def test_dropping_all_leaves_one_token() -> None:
    assert len(noisy_words(NoiseSettings(drop=1, reorder=0, lengthen=0))) == 1


@given(st.integers(0, 99), st.floats(0, 1))
def test_reordering_moves_tokens_by_two_places_at_most(seed: int, rate: float) -> None:
    moved = noisy_words(QUIET.model_copy(update={"reorder": rate}), seed=seed)
    places = {word: place for place, word in enumerate(WORDS.split())}
    assert Counter(moved) == Counter(list(places))
    assert all(abs(places[word] - place) <= 2 for place, word in enumerate(moved))


def test_a_longer_query_has_the_evidence_of_both() -> None:
    examples = [
        example("1", "first", True, False, False),
        example("x", "elsewhere", False, document="e"),
        example("2", "second", False, True, False),
    ]
    longer, other, last = add_noise(examples, NoiseSettings(drop=0, reorder=0, lengthen=1), seed=1)
    assert longer == replace(examples[0], query="first second", labels=(True, True, False))
    assert (other, last) == (examples[1], examples[2])


def test_one_weak_label_makes_the_union_weak() -> None:
    first, second = example("1", "a", True), replace(example("2", "b", False), label_source="weak")
    longer, _ = add_noise([first, second], NoiseSettings(lengthen=1), seed=1)
    assert longer.label_source == "weak"


def test_unlabelled_queries_stay_unlabelled() -> None:
    first, second = replace(example("1", "a", True), labels=None), example("2", "b", False)
    longer, _ = add_noise([first, second], NoiseSettings(drop=0, reorder=0, lengthen=1), seed=1)
    assert (longer.query, longer.labels) == ("a b", None)


def test_documents_of_one_id_must_be_the_same() -> None:
    with pytest.raises(ValueError, match="other sentences than those of 2"):
        add_noise([example("1", "a", True), example("2", "b", True, False)], NoiseSettings(lengthen=1), 1)


def test_noise_belongs_to_seed_document_and_query() -> None:
    settings = NoiseSettings(drop=0.5)
    one, other = example("1", WORDS, True), example("2", WORDS, True, document="e")
    together = add_noise([other, one], settings, 1)[1]
    assert add_noise([one], settings, 1) == [together]
    assert add_noise([one], settings, 2) != [together]
    assert add_noise([other], settings, 1)[0].query != together.query


def test_a_share_of_the_queries_gets_noise() -> None:
    examples = [example(str(number), f"{number} {WORDS}", True) for number in range(400)]
    noisy = add_noise(examples, NoiseSettings(drop=0.5, share=0.1), 1)
    changed = sum(one != other for one, other in zip(noisy, examples, strict=True))
    assert 20 <= changed <= 60
