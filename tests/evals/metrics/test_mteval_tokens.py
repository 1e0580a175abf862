from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from evals.metrics.mteval_tokens import tokenize_13a
from tests.evals.metrics.texts import any_texts

_ODD = st.text(alphabet="a1.,-'(&;lt<\n \u00a0\u2028\x1c", max_size=40)


@given(any_texts | _ODD)
def test_word_by_word_it_is_sacrebleu_s_tokenizer(text: str) -> None:
    assert tokenize_13a(text) == Tokenizer13a()(text)
