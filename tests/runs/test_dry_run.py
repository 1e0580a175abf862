from __future__ import annotations

import json
from typing import Any

import pytest

from cases.biomedical import QuestionType
from cases.records import INTENTS
from graph.system import find_system
from graph.tamu import TamuRecipe
from nodes.answer.align_answer import alignment_reply
from nodes.answer.answer_ideally import IDEAL_REPLY, find_ideal_faults
from nodes.answer.answer_rules import AnswerSettings, find_faults, made_up_answer
from nodes.answer.exact_reply import exact_reply
from nodes.core.dry_run import DryCall
from nodes.evidence.reply_forms import label_reply
from nodes.question.classify_intent import INTENT_REPLY
from nodes.question.interpret_question import QUESTION_REPLY, find_question_faults
from nodes.reading.explain_verdict import EXPLANATION_REPLY
from runs.execute.rehearsal import Foreseen, writer
from serving.protocol.errors import CallError
from serving.protocol.reply import JsonSchema
from serving.protocol.request import AnyRequest
from serving.requests.dry_run import Write
from tests.serving.asks import as_sent

IDS = [str(number) for number in range(1, 401)]


def call(schema: JsonSchema | None, case_id: str = "7", name: str = "labels") -> AnyRequest:
    return as_sent(schema, name, case_id=case_id, samples=(0, 1))


def writer_of(system: str, foreseen: Foreseen | None = None, **values: Any) -> Write:
    found = find_system(system)
    return writer(found, found.recipe.model_validate(values), foreseen or {})


def answer(rules: AnswerSettings) -> str:
    return made_up_answer(DryCall(TamuRecipe(answer=rules), "7", (), None))


def essential(case_id: str = "7", sample: int = 0) -> set[str]:
    reply = label_reply(IDS)
    return set(reply.parse(writer_of("tamu")(call(reply.schema, case_id), sample)))


@pytest.mark.parametrize(
    "rules",
    [
        AnswerSettings(),
        AnswerSettings(max_words=20),
        AnswerSettings(max_words=300),
        AnswerSettings(min_sentences=1, max_sentences=1),
        AnswerSettings(min_sentences=4, max_sentences=4),
        AnswerSettings(min_sentences=1, max_sentences=2, max_words=3),
    ],
)
def test_an_answer_keeps_the_rules(rules: AnswerSettings) -> None:
    assert find_faults(answer(rules), rules) == []


def test_about_a_quarter_of_the_sentences_is_essential() -> None:
    assert 0.2 < len(essential()) / len(IDS) < 0.33


def test_votes_differ_a_little() -> None:
    differ = len(essential(sample=0) ^ essential(sample=1)) / len(IDS)
    assert 0.02 < differ < 0.2


def test_an_intent_is_of_the_taxonomy() -> None:
    INTENT_REPLY.parse(writer_of("tamu")(call(INTENT_REPLY.schema), 0))


def test_an_intent_that_is_foreseen_is_said() -> None:
    likely = list(INTENTS)[3]
    text = writer_of("tamu", {"7": {"primary": likely, "secondary": "unheard-of"}})(
        call(INTENT_REPLY.schema), 0
    )
    assert INTENT_REPLY.parse(text)["primary"] == likely


def test_other_schemas_get_values_that_fit() -> None:
    schema = {
        "type": "object",
        "properties": {
            "why": {"type": "string"},
            "ids": {"type": "array", "items": {"enum": ["1", "2"]}, "minItems": 2},
            "score": {"type": "integer"},
        },
    }
    value = json.loads(writer_of("tamu")(call(schema), 0))
    assert isinstance(value["why"], str) and isinstance(value["score"], int)
    assert len(value["ids"]) == 2 and set(value["ids"]) <= {"1", "2"}


def test_a_schema_that_nothing_is_known_of_is_named() -> None:
    with pytest.raises(CallError, match=r"\$ref"):
        writer_of("tamu")(call({"$ref": "#/x"}), 0)


@pytest.mark.parametrize("max_words", [1, 2, 15, 40])
def test_a_question_keeps_its_rules(max_words: int) -> None:
    write = writer_of("tamu", question={"max_words": max_words})
    text = write(call(None, name=QUESTION_REPLY), 0)
    assert find_question_faults(text, max_words) == []
    assert text.endswith("?")


def test_an_alignment_cites_two_sentences_a_sentence() -> None:
    reply = alignment_reply(["a", "b"], IDS)
    text = writer_of("tamu")(call(reply.schema, name=reply.name), 0)
    links = reply.parse(text).links
    assert [len(cited) for cited in links.values()] == [2, 2]
    assert links["a"] != links["b"]


@pytest.mark.parametrize("type_", ["yesno", "factoid", "list"])
def test_exact_answers_fit_their_type(type_: QuestionType) -> None:
    reply = exact_reply(type_)
    assert reply.parse(writer_of("bioasq")(call(reply.schema), 0))


def test_an_explanation_has_four_fifths_of_its_limit() -> None:
    write = writer_of("timeaware", verdict={"explain": True, "max_words": 50})
    assert len(write(call(None, name=EXPLANATION_REPLY), 0).split()) == 40


def test_an_ideal_answer_has_four_fifths_of_its_own_limit() -> None:
    write = writer_of("bioasq", ideal={"max_words": 50})
    text = write(call(None, name=IDEAL_REPLY), 0)
    assert len(text.split()) == 40
    assert find_ideal_faults(text, 50) == []
