"""The baseline: labels, answer and citations by one prompt."""

from __future__ import annotations

from typing import Any

import pytest

from cases.records import AnswerSentence, Case
from graph.direct import SYSTEM
from nodes.answer.answer_directly import read_direct_reply
from nodes.core.context import Context
from runs.execute.case_run import CaseResult, run_case
from tests.nodes.builders import Bench, asked, case, gold, pool_of

GRAPH = SYSTEM.graph
REPLY = "Essential: 1, 3\nThe fever came first. |1|\nIt fell after drainage. |2, 3|"


async def run(
    bench: Bench, reply: str | list[str] = REPLY, one: Case | None = None, **values: Any
) -> tuple[CaseResult, Context]:
    one = one or case()
    replies = iter([reply] if isinstance(reply, str) else reply)
    context = bench.context(one, system="direct", replies=lambda _: next(replies), **values)
    return await run_case(SYSTEM, GRAPH, context, one), context


async def test_one_call_gives_labels_an_answer_and_its_citations(bench: Bench) -> None:
    result, context = await run(bench)
    line = result.line
    assert line["labels"] == {"1": "essential", "2": "not-essential", "3": "essential"}
    assert line["answer"] == "The fever came first. It fell after drainage."
    assert line["alignment"] == {"1": ["1"], "2": ["2", "3"]}
    assert (line["flags"], len(asked(context))) == ([], 1)


async def test_faults_are_quoted_once_and_then_flagged(bench: Bench) -> None:
    result, context = await run(bench, ["No ids at all.", "Still none."])
    assert result.line["flags"] == ["answer_breaks_rules", "no_citations", "no_labels"]
    assert result.line["answer"] == "Still none."
    _, quoted = asked(context)[-1].prompt[-1]
    assert "it has no line of essential ids" in quoted and "it does not cite the note" in quoted


async def test_a_reply_that_ends_with_its_line_of_labels_is_not_called_empty(bench: Bench) -> None:
    result, context = await run(bench, ["Essential: 1, 2, 3, 4, 5, 6, 7", REPLY])
    assert (result.line["flags"], len(asked(context))) == ([], 2)
    _, quoted = asked(context)[-1].prompt[-1]
    assert "it has no answer after its line of ids" in quoted and "empty" not in quoted


async def test_a_reply_that_stays_without_an_answer_fails(bench: Bench) -> None:
    result, _ = await run(bench, ["Essential: 1", "Essential: 1"])
    assert result.line["error"]["class"] == "invalid_output"
    assert result.line["error"]["message"] == "the reply has no answer"
    assert result.line["usage"]["calls"] == 2


async def test_what_is_cited_counts_where_no_line_of_labels_comes(bench: Bench) -> None:
    result, _ = await run(bench, "It fell. |2|", answer={"corrections": 0})
    assert [id_ for id_, label in result.line["labels"].items() if label == "essential"] == ["2"]
    assert "no_labels" in result.line["flags"]


async def test_a_demonstration_shows_labels_and_a_cited_answer(bench: Bench, tmp_path: Any) -> None:
    cited = gold(cited=(AnswerSentence("1", "It drained.", ("1",)),))
    pool = await pool_of(
        tmp_path,
        case(
            "shown",
            question="Why a drain?",
            narrative="They put in a drain.",
            note=["Abscess.", "Drain."],
            gold=cited,
        ),
    )
    result, context = await run(bench, pool=pool, answer={"demonstrations": 3})
    (call,) = asked(context)
    assert ("ai", "Essential: 1\nIt drained. |1|") in [tuple(turn) for turn in call.prompt]
    assert result.trace[0]["facts"]["demonstrations"] == ["shown"]


async def test_a_case_without_a_question_is_asked_its_patients(bench: Bench) -> None:
    result, _ = await run(bench, one=case(question=""))
    assert [step["node"] for step in result.trace[:-1]] == ["adopt_patient_question", "answer_directly"]


async def test_a_note_without_sentences_fails(bench: Bench) -> None:
    result, _ = await run(bench, one=case(note=[]))
    assert result.line["error"]["class"] == "invalid_input"


@pytest.mark.parametrize(
    ("text", "essential"),
    [
        ("Essential: 1, 2\nA. |1|", ["1", "2"]),
        ("**Essential sentences:** 2\nA. |1|", ["2"]),
        ("essential: [2] and [9]\nA. |1|", ["2"]),
        ("Essential: none\nA. |1|", []),
        ("A. |1|", None),
        ("It is essential: rest. |1|", None),
    ],
)
def test_the_line_of_labels(text: str, essential: list[str] | None) -> None:
    assert read_direct_reply(text, ("1", "2", "3")).essential == essential
