import json

import pytest

from serving.embedded.chat_format import ChatFormat
from serving.embedded.grammar import GrammarCompiler
from serving.embedded.request import InvalidSchema
from tests.serving_embedded.cases import label_map


@pytest.fixture(scope="module")
def compiler(chat: ChatFormat) -> GrammarCompiler:
    return GrammarCompiler(chat.tokenizer, len(chat.tokenizer), [2])


def test_all_but_the_choices_is_forced(compiler: GrammarCompiler, chat: ChatFormat) -> None:
    grammar = compiler.start(label_map(["1", "2"]))
    tokens = grammar.take_forced()
    (choice,) = chat.tokenizer.encode("n", add_special_tokens=False)
    while (allowed := grammar.allowed()) is not None and allowed.tolist() != [2]:
        tokens += grammar.take(choice)
    assert json.loads(str(chat.tokenizer.decode(tokens))) == {"1": "not-relevant", "2": "not-relevant"}


def test_an_odd_choice_of_token_is_spelled_as_the_tokenizer_would(
    compiler: GrammarCompiler, chat: ChatFormat
) -> None:
    replies = []
    for letters in ("n", "no", "not"):
        grammar = compiler.start(label_map(["1"]))
        (choice,) = chat.tokenizer.encode(letters, add_special_tokens=False)
        replies.append([*grammar.take_forced(), *grammar.take(choice)])
    assert replies[0] == replies[1] == replies[2]
    assert replies[0] == chat.tokenizer.encode('{"1": "not-relevant"}', add_special_tokens=False)


def test_a_forced_half_character_is_left_to_the_model(compiler: GrammarCompiler, chat: ChatFormat) -> None:
    # "ü" and "ö" begin with the same byte, so the string that is forced is not valid UTF-8.
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "enum": ["ü", "ö"]}},
        "required": ["a"],
    }
    grammar = compiler.start(schema)
    assert grammar.take_forced() == []
    assert grammar.allowed() is not None


def test_a_fork_goes_its_own_way(compiler: GrammarCompiler) -> None:
    first = compiler.start(label_map(["1"]))
    second = first.fork()
    assert first.take_forced() == second.take_forced() != []


def test_a_schema_that_means_nothing_is_its_own_failure(compiler: GrammarCompiler) -> None:
    with pytest.raises(InvalidSchema, match="cannot be used"):
        compiler.start({"type": "banana"})
