from __future__ import annotations

import pytest

from nodes.core.failure import NodeFailure
from nodes.question.adopt_patient_question import adopt_patient_question, patient_question
from tests.nodes.builders import Bench, case, run_node

NARRATIVE = "They stopped my drip. Why was it stopped? I was scared! Will I bleed? Thank you."


def test_focus_phrases_are_the_question() -> None:
    asked = patient_question(case(question="", phrases=["why was the drip\nstopped", "will I bleed"]))
    assert asked == ("why was the drip stopped will I bleed", "focus phrases")


def test_without_phrases_the_questions_of_the_narrative_are_asked() -> None:
    asked = patient_question(case(question="", narrative=NARRATIVE))
    assert asked == ("Why was it stopped? Will I bleed?", "questions in the narrative")


def test_without_questions_the_end_of_the_narrative_is_asked() -> None:
    question, found_in = patient_question(case(question="", narrative="word " * 500 + "the end"))
    assert (len(question), question[-7:], found_in) == (600, "the end", "end of the narrative")


@pytest.mark.parametrize("narrative", ["Why did I fall??", "Why did I fall???", "Why did I fall? ?"])
def test_repeated_question_marks_are_no_questions_of_their_own(narrative: str) -> None:
    question, _ = patient_question(case(question="", narrative=narrative))
    assert "? ?" not in question


def test_nothing_to_ask_is_invalid_input() -> None:
    with pytest.raises(NodeFailure) as caught:
        patient_question(case(question="", narrative=" \n "))
    assert caught.value.error_class == "invalid_input"


async def test_the_adopted_question_is_flagged(bench: Bench) -> None:
    context = bench.context(case(question="", phrases=["will I bleed"]))
    update = await run_node(adopt_patient_question, {"case_id": "q"}, context)
    assert update["patient_question"] == "will I bleed"
    assert update["decisions"][0]["flags"] == ["no_clinician_question"]
