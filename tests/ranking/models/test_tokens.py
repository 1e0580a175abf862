from __future__ import annotations

from ranking.models.tokens import read_layout, tokenize
from tests.ranking.models.tiny import tokenizer


def test_bert_closes_both_texts_and_numbers_their_segments() -> None:
    pair = read_layout(tokenizer()).two([4, 5], [6])
    assert pair.ids == [2, 4, 5, 3, 6, 3]
    assert pair.types == [0, 0, 0, 0, 1, 1]


def test_roberta_puts_two_separators_between_texts() -> None:
    pair = read_layout(tokenizer("roberta")).two([4, 5], [6])
    assert pair.ids == [2, 4, 5, 3, 3, 6, 3]
    assert set(pair.types) == {0}


def test_a_pair_is_what_the_tokenizer_makes_of_it() -> None:
    for kind in ("bert", "roberta"):
        known = tokenizer(kind)
        expected = known("fever cough", "film lung oxygen", return_token_type_ids=True)
        ids = [
            known(text, add_special_tokens=False)["input_ids"] for text in ("fever cough", "film lung oxygen")
        ]
        pair = read_layout(known).two(*ids)
        assert (pair.ids, pair.types) == (expected["input_ids"], expected["token_type_ids"])


def test_one_text_is_what_the_tokenizer_makes_of_it() -> None:
    known = tokenizer()
    assert read_layout(known).one([4, 5]).ids == known("fever cough")["input_ids"]


def test_long_texts_are_cut_and_named() -> None:
    tokenized = tokenize(tokenizer(), ["fever", "fever cough film", "lung scan"], 2)
    assert tokenized.ids == ([4], [4, 5], [7, 12])
    assert tokenized.cut == (1,)


def test_an_empty_sentence_becomes_the_unknown_token() -> None:
    assert tokenize(tokenizer(), ["", "  "], 8).ids == ([1], [1])
