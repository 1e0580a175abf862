from __future__ import annotations

import json
from pathlib import Path

from cases.records import AnswerSentence, Case, Gold, Sentence
from evals.statements.sets import (
    CONTRADICTED,
    RIGHT,
    UNRELATED,
    first_half,
    invented_statements,
    scifact_statements,
    unanswerable_questions,
)


def case(id_: str) -> Case:
    answer = (AnswerSentence("1", "The hip was replaced on day 2.", ("2",)),)
    note = (Sentence("1", "A fall."), Sentence("2", "Hip replaced on hospital day 2."))
    return Case(id_, "", f"Why {id_}?", note, gold=Gold(answer_sentences=answer))


def test_answers_come_with_their_corruptions_and_the_sentences_that_they_cite() -> None:
    items = invented_statements([case("a")])
    assert [one.kind for one in items] == [RIGHT, "negation", "time"]
    assert {one.cited for one in items} == {(Sentence("2", "Hip replaced on hospital day 2."),)}
    assert items[0].text == "The hip was replaced on day 2."
    assert [one.is_right for one in items] == [True, False, False]


def test_each_question_meets_each_note() -> None:
    cases = [case("a"), case("b"), case("c")]
    items = unanswerable_questions(cases)
    assert len(items) == 9
    assert [(one.group, one.text) for one in items if one.is_right] == [
        ("a", "Why a?"),
        ("b", "Why b?"),
        ("c", "Why c?"),
    ]


def test_claims_have_their_evidence_and_as_many_sentences_of_an_abstract_on_something_else(
    tmp_path: Path,
) -> None:
    claims = [
        {"id": 1, "claim": "Tea cools.", "evidence": {"10": [{"sentences": [0, 2], "label": "SUPPORT"}]}},
        {"id": 2, "claim": "Rain dries.", "evidence": {"20": [{"sentences": [1], "label": "CONTRADICT"}]}},
        {"id": 3, "claim": "Nothing.", "evidence": {}},
    ]
    corpus = [
        {"doc_id": 10, "abstract": ["Tea was left.", "Aside.", "It cooled."]},
        {"doc_id": 20, "abstract": ["It rained.", "All was wet.", "The end."]},
    ]
    for name, lines in (("claims_train.jsonl", claims), ("corpus.jsonl", corpus)):
        (tmp_path / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    items = scifact_statements(tmp_path, 10, lambda _, sentences: range(len(sentences) - 1, -1, -1))
    assert [(one.group, one.kind, [cited.text for cited in one.cited]) for one in items] == [
        ("1", RIGHT, ["Tea was left.", "It cooled."]),
        ("1", UNRELATED, ["All was wet.", "The end."]),
        ("2", CONTRADICTED, ["All was wet."]),
        ("2", UNRELATED, ["It cooled."]),
    ]


def test_halves_depend_on_names_alone_and_split_no_group() -> None:
    items = unanswerable_questions([case(id_) for id_ in "abcde"])
    half = first_half(items)
    assert len(half) == 3
    assert half == first_half(reversed(items))
