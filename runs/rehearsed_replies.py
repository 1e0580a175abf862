"""What a model might say, as far as the length of a run goes: valid replies, the same for the same case."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from nodes.answer.alignment_reply import ALIGNMENT_REPLY
from nodes.answer.answer_ideally import IDEAL_REPLY
from nodes.answer.generate_cited_answer import CITED_ANSWER_REPLY
from nodes.core.settings import AnswerSettings, Settings
from nodes.question.interpret_question import QUESTION_REPLY
from nodes.reading.explain_verdict import EXPLANATION_REPLY
from serving.backends.backend import CallParameters
from serving.errors import CallError
from serving.messages import Message
from serving.numbered_lines import numbered_ids
from serving.rehearsal import Write
from serving.reply import JsonSchema

ESSENTIAL_SHARE = 0.25
"""Of the sentences of a note."""

DISSENT_SHARE = 0.05
"""Labels that a vote turns round, so that votes differ a little, as a model's do."""

WORDS_SHARE = 0.8
"""Words of an answer or a question as a share of the recipe's limit: models stay below it."""

CITED_SENTENCES = 2
"""Note sentences for each sentence of an answer; 2.0 on average in the packaged cases."""

_PREFERRED_SENTENCES = 3
_EXPLAINING_SENTENCES = 8

_TEXT = (
    "the patient was treated with intravenous piperacillin-tazobactam because blood cultures on hospital"
    " day 3 grew Klebsiella pneumoniae and CT of the abdomen showed a 6 cm hepatic abscess, which needed"
    " percutaneous drainage before the fever, the leukocytosis and the creatinine of 240 improved"
)
"""About as many tokens a word as clinicians' answers take."""

Foreseen = Mapping[str, Mapping[str, str]]
"""By case: what the model is likely to say for a field of a reply."""


def writer(settings: Settings, foreseen: Foreseen) -> Write:
    """Makes replies up: a value for each field of a schema, and for free text what keeps its rules."""
    answer = rehearsed_answer(settings.answer)
    question = rehearsed_question(settings.question.max_words)
    rules = AnswerSettings(max_words=settings.verdict.max_words, max_sentences=_EXPLAINING_SENTENCES)
    explanation = rehearsed_answer(rules)
    ideal = rehearsed_answer(
        AnswerSettings(max_words=settings.ideal.max_words, max_sentences=_EXPLAINING_SENTENCES)
    )
    free_texts = {QUESTION_REPLY: question, EXPLANATION_REPLY: explanation, IDEAL_REPLY: ideal}

    def write(call: CallParameters, sample: int, messages: Sequence[Message]) -> str:
        if call.schema_name == CITED_ANSWER_REPLY:
            return rehearsed_citations(settings.answer, numbered_ids([one.text for one in messages]))
        if call.schema is None:
            return free_texts.get(call.schema_name, answer)
        if call.schema_name == ALIGNMENT_REPLY:
            return json.dumps(_alignment(call.schema, call.case_id))
        value = _value(call.schema, (call.case_id,), (call.role, str(sample)))
        likely = foreseen.get(call.case_id, {})
        fields = call.schema.get("properties", {})
        fitting = {
            name: said for name, said in likely.items() if said in fields.get(name, {}).get("enum", ())
        }
        return json.dumps({**value, **fitting} if fitting else value)

    return write


def rehearsed_answer(rules: AnswerSettings) -> str:
    """Plain words in as many sentences as the rules allow, three if they do."""
    return " ".join(_sentences(rules))


def _sentences(rules: AnswerSettings) -> list[str]:
    sentences = min(max(rules.min_sentences, _PREFERRED_SENTENCES), rules.max_sentences)
    words = max(round(WORDS_SHARE * rules.max_words), min(sentences, rules.max_words))
    share, rest = divmod(words, sentences)
    vocabulary = itertools.cycle(_TEXT.split())
    lengths = [share + (1 if index < rest else 0) for index in range(sentences)]
    return [_sentence(list(itertools.islice(vocabulary, length))) for length in lengths if length]


def rehearsed_citations(rules: AnswerSettings, ids: Sequence[str]) -> str:
    """The same with citations behind each sentence, of lines of the prompt."""
    cited = itertools.cycle(ids)
    return "\n".join(
        f"{sentence} |{', '.join(itertools.islice(cited, CITED_SENTENCES))}|" if ids else sentence
        for sentence in _sentences(rules)
    )


def rehearsed_question(max_words: int) -> str:
    """Plain words in one question."""
    words = itertools.islice(itertools.cycle(_TEXT.split()), max(1, round(WORDS_SHARE * max_words)))
    return f"{_sentence(list(words)).removesuffix('.')}?"


def _alignment(schema: JsonSchema, case_id: str) -> dict[str, list[str]]:
    """Links to neighbouring sentences, the same for the same case."""
    links = {}
    for name, part in schema["properties"].items():
        options = part["items"]["enum"]
        start = int(_share((case_id, name)) * max(1, len(options) - CITED_SENTENCES + 1))
        links[name] = options[start : start + CITED_SENTENCES]
    return links


def _sentence(words: list[str]) -> str:
    return f"{words[0][0].upper()}{' '.join(words)[1:].rstrip(',')}."


def _value(schema: JsonSchema, place: tuple[str, ...], vote: tuple[str, ...]) -> Any:
    """A value that fits a schema; `place` says which one, `vote` who is asked."""
    if "enum" in schema:
        return _choice(schema["enum"], place, vote)
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _value(part, (*place, name), vote) for name, part in properties.items()}
    if kind == "array":
        count = max(1, schema.get("minItems", 1))
        return [_value(schema.get("items", {}), (*place, str(index)), vote) for index in range(count)]
    simple = {"string": "the patient improved", "integer": 1, "number": 0.5, "boolean": True, "null": None}
    if kind in simple:
        return simple[kind]
    raise CallError("internal", f"a rehearsal cannot make up a value for {json.dumps(schema)[:80]}")


def _choice(options: list[Any], place: tuple[str, ...], vote: tuple[str, ...]) -> Any:
    if len(options) == 2 and "essential" in options:
        essential = _share(place) < ESSENTIAL_SHARE
        if _share((*place, *vote)) < DISSENT_SHARE:
            essential = not essential
        return next(option for option in options if (option == "essential") == essential)
    return options[int(_share(place) * len(options))]


def _share(place: tuple[str, ...]) -> float:
    """A number from 0 to below 1, the same for the same place."""
    return int.from_bytes(hashlib.sha256(json.dumps(place).encode()).digest()[:4]) / 2**32
