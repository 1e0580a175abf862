"""Answers that are held against their record: written again, removed, flagged, reviewed, or declined."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import ValidationError

from graph.recipe import RECIPES, load_recipe
from graph.system import find_system
from nodes.core.context import Context
from nodes.question.judge_answerability import judges_answerability
from nodes.retrieval.retrieve_sentences import RETRIEVER
from nodes.verification.decline_answer import NOT_IN_DOCUMENTS, NOT_STATED
from nodes.verification.support import marked_text
from nodes.verification.verify_answer import VerificationSettings, verifies
from ranking.rankers.bm25 import Bm25Ranker
from runs.execute.case_run import CaseResult, run_case
from runs.execute.rehearsal import rehearsed
from serving.backends.scripted import ScriptedCall
from tests.graph.routes import route, texts
from tests.nodes.biomedical_builders import asking
from tests.nodes.builders import Bench, asked, flags, script

GOOD = "Heparin was stopped as the platelet count fell."
BAD = "Warfarin was started."
BOTH = f"{GOOD} {BAD}"
IN_SNIPPET = "Quaggamab lowered the count."
SHORT = {"min_sentences": 1}
CHECK: dict[str, Any] = {"check": "model"}


def judging(call: ScriptedCall) -> str:
    """No to warfarin; Yes to all else."""
    share = 0.05 if "Warfarin" in call.prompt[-1][1].partition("Statement:")[2] else 0.95
    return json.dumps({"Yes": share, "No": 1 - share})


def writing(*answers: str) -> Callable[[ScriptedCall], str]:
    """One answer after the other, the last one for good."""

    def reply(call: ScriptedCall) -> str:
        return answers[min(sum(role == "ai" for role, _ in call.prompt), len(answers) - 1)]

    return reply


def tamu(bench: Bench, *answers: str, verify: Any = judging, **values: Any) -> Context:
    recipe = {"answer": {"demonstrations": 0, **SHORT}, "verification": CHECK, **values}
    return bench.context(replies=script(answer=writing(*answers), verify=verify), **recipe)


async def ended(context: Context, system: str = "tamu") -> CaseResult:
    found = find_system(system)
    graph = found.build()
    (one,) = context.cases.values()
    return await run_case(found, graph, context, one)


def nodes(result: CaseResult) -> list[str]:
    return [step["node"] for step in result.trace[:-1]]


async def test_an_unsupported_answer_is_written_again_with_its_fault_quoted(bench: Bench) -> None:
    context = tamu(bench, BOTH, GOOD)
    result = await ended(context)
    assert (result.line["answer"], result.line["answer_status"]) == (GOOD, "answered")
    assert nodes(result)[-6:] == ["generate_answer", "check_answer", "verify_answer"] * 2
    assert result.line["flags"] == []
    last = asked(context, "answer")[-1].prompt
    assert last[-2][1] == BOTH
    assert f'"{BAD}" is not supported by the record: the record does not name Warfarin' in last[-1][1]


async def test_a_rewrite_does_not_use_up_the_corrections_of_the_rules(bench: Bench) -> None:
    """The first answer breaks its rules, the second is unsupported, the third breaks its rules again."""
    context = tamu(
        bench, "no end", BOTH, "Heparin", GOOD, answer={"demonstrations": 0, "corrections": 2, **SHORT}
    )
    result = await ended(context)
    assert (result.line["answer"], result.line["flags"]) == (GOOD, [])
    assert nodes(result).count("verify_answer") == 2


async def test_an_answer_that_stays_unsupported_is_flagged_and_never_shown_without_its_mark(
    bench: Bench,
) -> None:
    result = await ended(tamu(bench, BOTH))
    line = result.line
    assert (line["answer"], line["answer_status"], line["flags"]) == (
        BOTH,
        "unsupported",
        ["unsupported_answer"],
    )
    assert [one["support"] for one in line["answer_support"]] == ["supported", "not_stated"]
    assert marked_text(line) == f"{GOOD} {BAD} [not stated]"


async def test_a_sentence_that_stays_unsupported_is_removed(bench: Bench) -> None:
    result = await ended(tamu(bench, BOTH, verification={**CHECK, "on_unsupported": "remove"}))
    line = result.line
    assert (line["answer"], line["answer_status"], line["flags"]) == (GOOD, "answered", ["removed_sentences"])


async def test_an_answer_of_which_nothing_is_supported_ends_as_not_stated(bench: Bench) -> None:
    result = await ended(tamu(bench, BAD, verification={**CHECK, "on_unsupported": "remove"}))
    assert (result.line["answer"], result.line["answer_status"]) == (NOT_STATED, "not_stated")
    assert result.line["nearest_sentences"] and nodes(result)[-1] == "decline_answer"


async def test_a_note_that_does_not_answer_ends_the_case_before_an_answer(bench: Bench) -> None:
    context = tamu(bench, GOOD, verify='{"Yes": 0.1, "No": 0.9}', answerability="auto")
    result = await ended(context)
    assert (result.line["answer"], result.line["answer_status"]) == (NOT_STATED, "not_stated")
    assert asked(context, "answer") == []
    assert "not_stated" in result.line["flags"]


async def test_a_note_that_answers_goes_on_to_the_answer(bench: Bench) -> None:
    result = await ended(tamu(bench, GOOD, answerability={"reply": "token", "least": 0.9}))
    assert (result.line["answer"], result.line["answer_status"]) == (GOOD, "answered")


@pytest.mark.parametrize(
    ("system", "ends"), [("direct", NOT_STATED), ("heids", NOT_STATED), ("bioasq", NOT_IN_DOCUMENTS)]
)
@pytest.mark.parametrize("reply", ["token", "json"])
async def test_every_system_that_answers_may_end_before_an_answer(
    bench: Bench, system: str, ends: str, reply: str
) -> None:
    of_system: dict[str, Any] = {"documents": {"phase": "b"}} if system == "bioasq" else {}
    label = '{"answerable": "no", "sentences": []}'
    context = bench.context(
        *([asking("q", "summary")] if system == "bioasq" else []),
        system=system,
        replies=lambda call: '{"Yes": 0.1, "No": 0.9}' if reply == "token" else label,
        tools={RETRIEVER: Bm25Ranker()} if system == "heids" else {},
        answerability=reply,
        **of_system,
    )
    result = await ended(context, system)
    assert (result.line["answer"], result.line["answer_status"]) == (ends, "not_stated")
    assert nodes(result)[-2:] == ["judge_answerability", "decline_answer"]
    (call,) = asked(context)
    assert "1: " in texts(call) and (IN_SNIPPET in texts(call)) == (system == "bioasq")


async def test_an_aligned_answer_is_held_against_what_each_sentence_cites(bench: Bench) -> None:
    links = json.dumps({"1": ["1"], "2": ["3"]})
    recipe: dict[str, Any] = {
        "answer": {"demonstrations": 0, **SHORT},
        "alignment": {"answer": "generated", "demonstrations": 0},
        "verification": {**CHECK, "on_unsupported": "remove", "rewrites": 0},
    }
    context = bench.context(replies=script(answer=BOTH, verify=judging, alignment=links), **recipe)
    line = (await ended(context)).line
    assert line["alignment"] == {"1": ["1"]}
    assert [one["id"] for one in line["answer_sentences"]] == ["1"]


ASKING: dict[str, Any] = {
    "review": {"unsupported": True},
    "evidence": {"votes": 1, "threshold": 1, "reflection": False},
}
SAME = {"1": "essential", "2": "not-relevant", "3": "not-relevant"}
OTHER = {"1": "not-relevant", "2": "essential", "3": "not-relevant"}


@pytest.mark.parametrize(
    ("given", "again"), [(SAME, []), (OTHER, ["generate_answer", "check_answer", "verify_answer"])]
)
async def test_a_person_looks_at_an_unsupported_answer_once(
    bench: Bench, given: dict[str, str], again: list[str]
) -> None:
    context = tamu(bench, BOTH, **ASKING)
    graph = find_system("tamu").build(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "q"}}
    waits = await graph.ainvoke({"case_id": "q"}, config, context=context)
    (wait,) = waits["__interrupt__"]
    assert "1 of 2 sentences of the answer are not supported" in wait.value["because"]
    review = {"reviewer": "Ann", "reviewed_at": "2026-01-01T00:00:00+00:00", "labels": given}
    state = await graph.ainvoke(Command(resume=review), config, context=context)
    followed = route(state)[route(state).index("await_review") + 1 :]
    assert followed[-3:] == again
    assert state["answer_status"] == "unsupported" and "reviewed" in flags(state)


def test_a_review_of_unsupported_answers_needs_answers_that_are_flagged() -> None:
    recipe = find_system("tamu").recipe
    with pytest.raises(ValidationError, match=r"review\.unsupported is set, but no answer is flagged"):
        recipe.model_validate({"review": {"unsupported": True}})
    asks = recipe.model_validate({"review": {"unsupported": True}, "verification": CHECK})
    assert asks.waits_for_people and not asks.without_waiting().waits_for_people


@pytest.mark.parametrize(
    ("method", "first", "second"),
    [
        ("post_retrieval", f"{GOOD} |1|\n{BAD} |2|", f"{GOOD} |1|"),
        ("post_generation", BOTH, GOOD),
    ],
)
async def test_heids_writes_an_unsupported_answer_again(
    bench: Bench, method: str, first: str, second: str
) -> None:
    weights = {"lexical": 1.0, "fuzzy": 0.0, "semantic": 0.0}
    reply = writing(first, second)
    context = bench.context(
        system="heids",
        replies=script(answer=reply, cited_answer=reply, verify=judging),
        tools={RETRIEVER: Bm25Ranker()},
        citation={"method": method, "weights": weights},
        verification=CHECK,
    )
    result = await ended(context, "heids")
    assert (result.line["answer"], result.line["answer_status"]) == (GOOD, "answered")
    assert nodes(result).count("verify_answer") == 2


async def test_the_single_prompt_writes_an_unsupported_answer_again(bench: Bench) -> None:
    reply = writing(f"Essential: 1\n{GOOD} |1|\n{BAD} |2|", f"Essential: 1\n{GOOD} |1|")
    context = bench.context(
        system="direct", replies=script(cited_answer=reply, verify=judging), verification=CHECK
    )
    result = await ended(context, "direct")
    assert (result.line["answer"], result.line["answer_status"]) == (GOOD, "answered")
    assert result.line["alignment"] == {"1": ["1"]}


@pytest.mark.parametrize(("answers", "ends"), [((BAD, IN_SNIPPET), IN_SNIPPET), ((BAD,), NOT_IN_DOCUMENTS)])
async def test_answers_from_documents_are_held_against_their_snippets(
    bench: Bench, answers: tuple[str, ...], ends: str
) -> None:
    context = bench.context(
        asking("q", "summary"),
        system="bioasq",
        replies=lambda call: judging(call) if call.role == "verify" else writing(*answers)(call),
        documents={"phase": "b"},
        verification={**CHECK, "on_unsupported": "remove"},
    )
    result = await ended(context, "bioasq")
    assert result.line["answer"] == ends
    assert all("Statement:" in texts(call) for call in asked(context, "verify"))


async def test_a_second_run_over_the_same_journal_asks_nothing(bench: Bench) -> None:
    context = tamu(bench, BOTH, answerability="auto")
    first = await ended(context)
    calls = len(asked(context))
    again = await ended(context)
    assert again.line["answer_support"] == first.line["answer_support"]
    assert len(asked(context)) == calls


def test_a_rehearsal_writes_no_answer_again_and_waits_for_nobody() -> None:
    values = {"review": {"unsupported": True}, "verification": {**CHECK, "rewrites": 2}}
    recipe = rehearsed(find_system("tamu").recipe.model_validate(values))
    assert recipe.section(VerificationSettings) == VerificationSettings(check="model", rewrites=0)
    assert not recipe.waits_for_people


@pytest.mark.parametrize("name", RECIPES.packaged_names())
def test_only_recipes_of_the_product_verify(name: str) -> None:
    """Those of papers and shared tasks answer as their systems did."""
    recipe = load_recipe(name)
    assert verifies(recipe) == (name in ("ask", "laptop"))
    assert judges_answerability(recipe) == (name in ("ask", "laptop", "triage"))
