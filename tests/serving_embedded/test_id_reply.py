"""Lists of ids from real weights: always in order, never twice, spelled as the tokenizer spells them."""

from __future__ import annotations

import json
from itertools import pairwise

from nodes.evidence.id_reply import id_reply_tokens, id_schema, parse_ids
from serving.embedded.chat_format import ChatFormat
from serving.embedded.engine import Engine
from serving.embedded.grammar import GrammarCompiler
from serving.embedded.request import Request
from tests.serving_embedded.cases import IDS, PROMPT, ask

SAMPLES = tuple(range(12))


def request(chat: ChatFormat, prompt: str, *, temperature: float = 0.0) -> Request:
    return Request(
        prompt=tuple(chat.encode([{"role": "user", "content": prompt}])),
        samples=SAMPLES if temperature else (0,),
        temperature=temperature,
        max_new_tokens=id_reply_tokens(IDS),
        schema=id_schema(IDS),
    )


def test_hot_samples_are_whole_lists_in_note_order(engine: Engine, chat: ChatFormat) -> None:
    question = f'{PROMPT}\nReply with JSON: {{"essential": [...]}} with the ids of essential sentences.'
    (reply,) = ask(engine, request(chat, question, temperature=3.0))
    assert {sample.finish_reason for sample in reply.samples} == {"stop"}
    lists = [json.loads(sample.text)["essential"] for sample in reply.samples]
    assert [parse_ids(sample.text, IDS) for sample in reply.samples] == lists
    assert all(IDS.index(one) < IDS.index(next_) for found in lists for one, next_ in pairwise(found))
    assert len({tuple(found) for found in lists}) > 1


def test_a_list_is_fed_as_the_tokenizer_spells_it(engine: Engine, chat: ChatFormat) -> None:
    text = '{"essential": ["2", "3", "5"]}'
    (reply,) = ask(engine, request(chat, f"Repeat exactly this and nothing else: {text}"))
    sample = reply.samples[0]
    assert list(sample.tokens) == chat.tokenizer.encode(sample.text, add_special_tokens=False)


def test_what_is_forced_costs_no_step(chat: ChatFormat) -> None:
    grammar = GrammarCompiler(chat.tokenizer, len(chat.tokenizer), [2]).start(id_schema(IDS))
    tokens = grammar.take_forced()
    steps = 0
    for piece in (' ["', "2", '",', "5", '"]'):
        (choice,) = chat.tokenizer.encode(piece, add_special_tokens=False)
        tokens += grammar.take(choice)
        steps += 1
    assert chat.tokenizer.decode(tokens) == '{"essential": ["2", "5"]}'
    assert (len(tokens), steps) == (10, 5)


def test_the_end_of_what_is_forced_is_left_open_for_a_longer_token(chat: ChatFormat) -> None:
    grammar = GrammarCompiler(chat.tokenizer, len(chat.tokenizer), [2]).start(id_schema(IDS))
    assert chat.tokenizer.decode(grammar.take_forced()) == '{"essential":'
    allowed = grammar.allowed()
    assert allowed is not None
    spellings = {str(chat.tokenizer.decode([token])) for token in allowed.tolist()}
    assert {" [", ' ["', " []"} <= spellings
