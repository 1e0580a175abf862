import json
from itertools import pairwise

import pytest

from nodes.evidence.reply_forms import id_reply_tokens, id_schema, parse_ids
from serving.embedded.chat_format import ChatFormat
from serving.embedded.engine import Engine
from serving.embedded.grammar import GrammarCompiler
from serving.embedded.request import InvalidSchema, Request
from tests.serving_embedded.cases import IDS, PROMPT, ask, label_map


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


SAMPLES = tuple(range(12))


def request(chat: ChatFormat, prompt: str, *, temperature: float = 0.0) -> Request:
    return Request(
        prompt=tuple(chat.encode([{"role": "user", "content": prompt}])),
        samples=SAMPLES if temperature else (0,),
        temperature=temperature,
        max_new_tokens=id_reply_tokens(IDS),
        schema=id_schema(IDS),
    )


def test_hot_samples_are_whole_lists_in_note_order(whole_engine: Engine, chat: ChatFormat) -> None:
    question = f'{PROMPT}\nReply with JSON: {{"essential": [...]}} with the ids of essential sentences.'
    (reply,) = ask(whole_engine, request(chat, question, temperature=3.0))
    assert {sample.finish_reason for sample in reply.samples} == {"stop"}
    lists = [json.loads(sample.text)["essential"] for sample in reply.samples]
    assert [parse_ids(sample.text, IDS) for sample in reply.samples] == lists
    assert all(IDS.index(one) < IDS.index(next_) for found in lists for one, next_ in pairwise(found))
    assert len({tuple(found) for found in lists}) > 1


def test_a_list_is_fed_as_the_tokenizer_spells_it(whole_engine: Engine, chat: ChatFormat) -> None:
    text = '{"essential": ["2", "3", "5"]}'
    (reply,) = ask(whole_engine, request(chat, f"Repeat exactly this and nothing else: {text}"))
    sample = reply.samples[0]
    assert list(sample.tokens) == chat.tokenizer.encode(sample.text, add_special_tokens=False)


def test_what_is_forced_costs_no_step(chat: ChatFormat) -> None:
    grammar = GrammarCompiler(chat.tokenizer, len(chat.tokenizer), [2]).start(id_schema(IDS))
    tokens = grammar.take_forced()
    steps = 0
    for piece in (' ["', "5", '",', "7", '"]'):
        (choice,) = chat.tokenizer.encode(piece, add_special_tokens=False)
        tokens += grammar.take(choice)
        steps += 1
    assert chat.tokenizer.decode(tokens) == '{"essential": ["5", "7"]}'
    assert (len(tokens), steps) == (10, 5)


def test_the_end_of_what_is_forced_is_left_open_for_a_longer_token(chat: ChatFormat) -> None:
    grammar = GrammarCompiler(chat.tokenizer, len(chat.tokenizer), [2]).start(id_schema(IDS))
    assert chat.tokenizer.decode(grammar.take_forced()) == '{"essential":'
    allowed = grammar.allowed()
    assert allowed is not None
    spellings = {str(chat.tokenizer.decode([token])) for token in allowed.tolist()}
    assert {" [", ' ["', " []"} <= spellings
