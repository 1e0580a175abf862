from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases.records import INTENTS, RISK_LEVELS
from serving.backends import Backend, connect
from serving.backends.backend import Server
from serving.backends.scripted import HISTORY_LENGTH, ScriptedModel
from serving.journal.journal import Journal
from serving.protocol.errors import CallError, ModelError
from serving.protocol.messages import Message
from serving.protocol.model_name import ModelName
from serving.protocol.reply import ReplyFormat, free_text
from serving.protocol.request import Failure
from serving.requests.client import ModelClient
from tests.serving.asks import PROMPT, SCHEMA, as_sent, said, word_ask, words

Write = Callable[[str, str], Path]

REPLIES = """
{"reply": {"word": "yes"}}
{"reply": "by role", "role": "label"}
{"reply": "by case", "case": "7"}
{"reply": "by role and sample", "role": "label", "sample": 1}
{"reply": "too late", "role": "label", "sample": 1}

{"fail": "timeout", "role": "answer", "case": "8", "sample": 2}
"""


def scripted(path: Path, function: str = "") -> Backend:
    return connect(ModelName("scripted", f"{path}:{function}" if function else str(path)))


def refused(name: str) -> str:
    with pytest.raises(ModelError) as caught:
        connect(ModelName("scripted", name))
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def reply(backend: Backend, **call: Any) -> str:
    asked = as_sent(
        call.get("schema"),
        call.get("format", "word"),
        role=call.get("role", "classify"),
        case_id=call.get("case_id", "1"),
        samples=(call.get("sample", 0),),
        messages=(Message("user", call.get("prompt", "Hello")),),
    )
    (answer,) = await backend.servers[0].complete(asked)
    return answer.text


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({}, '{"word": "yes"}'),
        ({"role": "label"}, "by role"),
        ({"case_id": "7"}, "by case"),
        ({"role": "label", "case_id": "7"}, "by role"),
        ({"role": "label", "case_id": "7", "sample": 1}, "by role and sample"),
        ({"role": "answer", "case_id": "8", "sample": 1}, '{"word": "yes"}'),
    ],
)
async def test_the_line_that_names_most_wins_then_the_earlier_one(
    write: Write, call: dict[str, Any], expected: str
) -> None:
    assert await reply(scripted(write("replies.jsonl", REPLIES)), **call) == expected


async def test_a_line_can_name_one_of_the_formats_of_a_role(write: Write) -> None:
    question = {"role": "answer", "format": "question", "reply": "why?"}
    lines = [{"role": "answer", "reply": "an answer"}, question]
    backend = scripted(write("replies.jsonl", "\n".join(map(json.dumps, lines))))
    assert await reply(backend, role="answer", format="answer") == "an answer"
    assert await reply(backend, role="answer", format="question") == "why?"


async def test_a_failing_line_raises_its_class(write: Write) -> None:
    backend = scripted(write("replies.jsonl", REPLIES))
    with pytest.raises(CallError, match="asks for this failure") as caught:
        await reply(backend, role="answer", case_id="8", sample=2)
    assert caught.value.error_class == "timeout"


# A failure of access ends the run instead of a call.


async def test_a_call_that_no_line_fits_is_named(write: Write, journal: Journal) -> None:
    backend = scripted(write("replies.jsonl", '{"reply": "a", "case": "8"}'))
    (outcome,) = await ModelClient({"label": backend}, journal).ask(word_ask())
    assert isinstance(outcome, Failure)
    assert "holds no reply for role 'label', case '7', sample 0" in str(outcome.error)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("no JSON", "line 3: Invalid JSON"),
        ('{"replay": "a"}', "line 3: replay: Extra inputs"),
        ('{"fail": "tired"}', "line 3: fail: "),
        ('{"sample": 1}', "line 3: needs either 'reply' or 'fail'"),
        ('{"reply": "a", "fail": "timeout"}', "line 3: needs either 'reply' or 'fail'"),
        ("[]", "line 3: "),
    ],
)
def test_a_bad_line_is_named_by_its_number(write: Write, line: str, fault: str) -> None:
    path = write("replies.jsonl", f'\ufeff{{"reply": "a"}}\n\n{line}\n')
    assert f"{path}: {fault}" in refused(str(path))


@pytest.mark.parametrize("separator", ["\u2028", "\u0085"])
async def test_only_a_line_break_ends_a_line(write: Write, separator: str) -> None:
    backend = scripted(write("replies.jsonl", f'{{"reply": "one{separator}two"}}\n'))
    assert await reply(backend) == f"one{separator}two"


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "replies.jsonl").write_bytes(b'{"reply": "caf\xe9"}')
    assert "replies.jsonl: not UTF-8: " in refused(str(tmp_path / "replies.jsonl"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "no such file" in refused(str(tmp_path / "replies.jsonl"))
    assert "no such file" in refused(f"{tmp_path / 'script.py'}:answer")


SCRIPT = """
from __future__ import annotations

NUMBER = 5

def answer(call):
    return f"{call.role} {call.case_id} {call.sample} {call.prompt[-1]} {call.schema_ is None}"

async def answer_later(call):
    return answer(call)
"""


@pytest.mark.parametrize("function", ["answer", "answer_later"])
async def test_a_function_is_called_for_each_sample(write: Write, journal: Journal, function: str) -> None:
    backend = scripted(write("script.py", SCRIPT), function)
    free = ReplyFormat("text", None, free_text)
    outcomes = await ModelClient({"label": backend}, journal).ask(word_ask(samples=(0, 2), reply=free))
    assert words(outcomes) == [
        f"label 7 {sample} ('human', 'Was the drug stopped?') True" for sample in (0, 2)
    ]


@pytest.mark.parametrize(
    ("text", "function", "fault"),
    [
        (SCRIPT, "anwser", "AttributeError"),
        (SCRIPT, "NUMBER", "NUMBER"),
        ("import nothing_of_this_name", "answer", "ModuleNotFoundError"),
        ("def answer(:", "answer", "SyntaxError"),
    ],
)
def test_a_script_that_cannot_be_used_is_named(write: Write, text: str, function: str, fault: str) -> None:
    path = write("script.py", text)
    message = refused(f"{path}:{function}")
    assert str(path) in message
    assert fault in message


async def test_the_history_keeps_the_latest_calls(journal: Journal) -> None:
    model = ScriptedModel(lambda call: said("no"))
    backend = replace(AUTO, servers=(Server("scripted", model),))
    await ModelClient({"label": backend}, journal).ask(word_ask(samples=(0, 1)))
    history = model.history
    assert [(call.role, call.case_id, call.sample) for call in history] == [
        ("label", "7", 0),
        ("label", "7", 1),
    ]
    assert history[0].prompt == [("system", PROMPT[0].text), ("human", PROMPT[1].text)]
    assert history[0].schema_ == SCHEMA
    await model(as_sent(role="answer", samples=tuple(range(HISTORY_LENGTH))))
    assert len(history) == HISTORY_LENGTH
    assert history[0].role == "answer"


LABELS = {
    "type": "object",
    "properties": {str(id_): {"type": "string", "enum": ["essential", "not-essential"]} for id_ in range(30)},
    "required": [str(id_) for id_ in range(30)],
    "additionalProperties": False,
}
INTENT = {
    "type": "object",
    "properties": {
        "primary": {"type": "string", "enum": list(INTENTS)},
        "secondary": {"type": "string", "enum": ["none", *INTENTS]},
        "risk_level": {"type": "string", "enum": list(RISK_LEVELS)},
    },
    "required": ["primary", "secondary", "risk_level"],
}
AUTO = connect(ModelName("scripted", "auto"))


async def made_up(schema: dict[str, Any] | None, sample: int = 0, prompt: str = "Hello") -> str:
    return await reply(AUTO, schema=schema, sample=sample, prompt=prompt)


@pytest.mark.parametrize("schema", [LABELS, INTENT, SCHEMA])
async def test_made_up_replies_follow_the_schema(schema: dict[str, Any]) -> None:
    for sample in range(20):
        value = json.loads(await made_up(schema, sample))
        assert list(value) == list(schema["properties"])
        assert all(value[name] in field["enum"] for name, field in schema["properties"].items())


async def test_a_made_up_list_holds_some_of_its_choices_in_order() -> None:
    ids = [str(number) for number in range(12)]
    items = {"type": "string", "enum": ids}
    schema = {"type": "object", "properties": {"essential": {"type": "array", "items": items}}}
    lists = [json.loads(await made_up(schema, sample))["essential"] for sample in range(20)]
    assert all(found == [id_ for id_ in ids if id_ in found] for found in lists)
    assert len({len(found) for found in lists}) > 3


async def test_a_schema_that_cannot_be_made_up_is_named(journal: Journal) -> None:
    with pytest.raises(CallError, match="cannot make up a value"):
        await made_up({"type": "object", "properties": {"age": {"type": "integer"}}})
