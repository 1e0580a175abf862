from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from evals.metrics.sari import Sari, sentence_sari
from evals.metrics.text_metric import TextPair
from tests.evals.metrics.texts import any_texts

_SOURCE = "About 95 species are currently accepted."


def test_it_gives_the_published_example() -> None:
    references = [
        "About 95 species are currently known.",
        "About 95 species are now accepted.",
        "95 species are now accepted.",
    ]
    assert sentence_sari(_SOURCE, "About 95 you now get in.", references) == 26.953601953601954


@given(any_texts, any_texts, st.lists(any_texts, min_size=1, max_size=3))
def test_it_is_the_definition_written_out(source: str, prediction: str, references: list[str]) -> None:
    ours = sentence_sari(source, prediction, references)
    assert ours == pytest.approx(_sari_written_out(source, prediction, references), abs=1e-9)


def test_the_reference_itself_is_perfect() -> None:
    assert sentence_sari("a b c d", "b c x", ["b c x"]) == 100


def test_a_word_deleted_once_of_twice_is_no_good_deletion() -> None:
    """Known of the reference implementation: what the reference still has once was not deleted well."""
    assert sentence_sari("a a", "a", ["a"]) == pytest.approx(100 * (1 + 3 / 4 + 1) / 3)


def test_an_unchanged_source_keeps_something_and_adds_nothing() -> None:
    assert sentence_sari("a b", "a b", ["b c"]) == pytest.approx(
        # Kept: F1 of 1/2 and 1 for words, 0 for pairs. Deleted: nothing. Added: nothing of 1 and 1.
        100 * ((2 / 3 + 0 + 1 + 1) / 4 + 1 + (0 + 0 + 1 + 1) / 4) / 3
    )


def test_case_is_ignored() -> None:
    assert sentence_sari("A b", "a B c", ["a c"]) == sentence_sari("a b", "a b c", ["A C"])


def test_each_pair_is_scored_from_its_source() -> None:
    pairs = [TextPair("b c x", "b c x", "a b c d"), TextPair("a b", "b c", "a b")]
    assert Sari().score(pairs) == [(100,), (sentence_sari("a b", "a b", ["b c"]),)]


def _sari_written_out(source: str, prediction: str, references: list[str]) -> float:
    """From the formulas: counts by searching lists, recall denominators fixed, 0/0 = 1."""
    tokenize = Tokenizer13a()
    s, p, *rs = (tokenize(text.lower()).split(" ") for text in (source, prediction, *references))
    scores = []
    for n in range(1, 5):
        grams = [_grams(tokens, n) for tokens in (s, p, *rs)]
        scores += _operations_written_out(grams[0], grams[1], grams[2:])
    return 100 * sum(scores) / len(scores)


def _operations_written_out(s: list[str], p: list[str], rs: list[list[str]]) -> list[float]:
    pooled = [gram for grams in rs for gram in grams]

    def in_source(gram: str) -> int:
        return s.count(gram) * len(rs)

    def kept(gram: str) -> int:
        return min(in_source(gram), p.count(gram) * len(rs))

    def keepable(gram: str) -> int:
        return min(in_source(gram), pooled.count(gram))

    def deleted(gram: str) -> int:
        return max(in_source(gram) - p.count(gram) * len(rs), 0)

    def deleted_well(gram: str) -> int:
        return max(deleted(gram) - pooled.count(gram), 0)

    def kept_well(gram: str) -> int:
        return min(kept(gram), pooled.count(gram))

    keep_recall = _or_1(sum(map(kept_well, set(s))), sum(map(keepable, set(s))))
    added, addable = set(p) - set(s), set(pooled) - set(s)
    return [
        _harmonic(_mean_share(set(s), kept_well, kept), keep_recall),
        _mean_share(set(s), deleted_well, deleted),
        _harmonic(_or_1(len(added & addable), len(added)), _or_1(len(added & addable), len(addable))),
    ]


def _mean_share(grams: set[str], part: Callable[[str], int], whole: Callable[[str], int]) -> float:
    shares = [part(gram) / whole(gram) for gram in grams if whole(gram)]
    return _or_1(sum(shares), len(shares))


def _grams(tokens: list[str], n: int) -> list[str]:
    return [" ".join(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]


def _or_1(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def _harmonic(a: float, b: float) -> float:
    return 2 * a * b / (a + b) if a + b else 0.0
