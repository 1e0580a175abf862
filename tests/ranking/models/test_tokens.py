from __future__ import annotations

from ranking.models.tokens import tokenize
from tests.ranking.models.tiny import tokenizer


def test_long_texts_are_cut_and_named() -> None:
    tokenized = tokenize(tokenizer(), ["fever", "fever cough film", "lung scan"], 2)
    assert tokenized.ids == ([4], [4, 5], [7, 12])
    assert tokenized.cut == (1,)


def test_an_empty_sentence_becomes_the_unknown_token() -> None:
    assert tokenize(tokenizer(), ["", "  "], 8).ids == ([1], [1])


def test_no_texts_give_no_tokens() -> None:
    assert tokenize(tokenizer(), [], 8).ids == ()


def test_ten_thousand_sentences_keep_their_places() -> None:
    tokenized = tokenize(tokenizer(), ["fever"] * 9_999 + ["clot"], 8)
    assert len(tokenized.ids) == 10_000
    assert tokenized.ids[-1] == [13]
