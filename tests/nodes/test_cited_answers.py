"""Answers from retrieved sentences: prompt, fitting, handling of replies."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.citing.generate_cited_answer import generate_cited_answer
from nodes.citing.generate_uncited_answer import generate_uncited_answer
from nodes.citing.validate_citations import validate_citations
from nodes.core.failure import NodeFailure
from tests.nodes.builders import NOTE, Bench, asked, case, facts, failing, flags, run_node, script

FOUND = [{"id": "3", "score": 0.9}, {"id": "1", "score": 0.5}, {"id": "2", "score": 0.1}]
STATE = {"case_id": "q", "retrieved": FOUND}
PLAIN = {"min_sentences": 1, "max_sentences": 10, "max_tokens": 16, "corrections": 0}


def last_turn(context: Any) -> str:
    return str(asked(context)[0].prompt[-1][1])


async def test_the_model_sees_the_sentences_in_score_order_with_their_ids(bench: Bench) -> None:
    context = bench.context(system="heids")
    update = await run_node(generate_cited_answer, STATE, context)
    lines = f"3: '{NOTE[2]}'\n1: '{NOTE[0]}'\n2: '{NOTE[1]}'"
    assert f"[Clinical Note Begin]\n{lines}\n[Clinical Note End]" in last_turn(context)
    assert update["answer_evidence"] == ["1", "2", "3"]
    assert facts(update)["shown"] == ["3", "1", "2"]
    assert asked(context)[0].format == "cited_answer"


async def test_for_attribution_afterwards_the_sentences_have_no_ids(bench: Bench) -> None:
    context = bench.context(system="heids")
    await run_node(generate_uncited_answer, STATE, context)
    assert f"[Clinical Note Begin]\n'{NOTE[2]}'\n'{NOTE[0]}'" in last_turn(context)
    assert "|" not in "".join(text for _, text in asked(context)[0].prompt)


async def test_sentences_that_do_not_fit_are_left_out_from_the_worst(bench: Bench) -> None:
    whole = bench.context(system="heids", answer=PLAIN, context_length=10_000)
    await run_node(generate_cited_answer, STATE, whole)
    words = sum(len(text.split()) for _, text in asked(whole)[0].prompt)
    # The room for the reply, the slack, and one word less than the worst sentence needs.
    context = bench.context(system="heids", answer=PLAIN, context_length=words + 16 + 100 - 1)
    update = await run_node(generate_cited_answer, STATE, context)
    assert facts(update)["shown"] == ["3", "1"]
    assert facts(update)["dropped_sentences"] == 1
    assert flags(update) == {"dropped_sentences"}
    assert NOTE[1] not in last_turn(context)


async def test_a_window_that_is_not_known_drops_nothing(bench: Bench) -> None:
    update = await run_node(generate_cited_answer, STATE, bench.context(system="heids", context_length=None))
    assert facts(update)["dropped_sentences"] == 0


async def test_a_case_that_never_fits_is_a_context_length_failure(bench: Bench) -> None:
    with pytest.raises(NodeFailure, match="even with one sentence of its note alone") as caught:
        await run_node(generate_cited_answer, STATE, bench.context(system="heids", context_length=60))
    assert caught.value.error_class == "context_length"


async def test_a_huge_retrieval_is_measured_a_few_times(bench: Bench) -> None:
    many = 1_000
    huge = case(note=[f"word {number} and more" for number in range(many)])
    context = bench.context(huge, system="heids", answer=PLAIN, context_length=2_000)
    counted = 0
    backend = context.client.backends["answer"]
    count = backend.count_tokens
    assert count is not None

    async def counting(messages: Any) -> int:
        nonlocal counted
        counted += 1
        return await count(messages)

    object.__setattr__(backend, "count_tokens", counting)
    found = [{"id": str(number), "score": 1.0} for number in range(1, many + 1)]
    update = await run_node(generate_cited_answer, {**STATE, "retrieved": found}, context)
    assert 100 < len(facts(update)["shown"]) < many
    assert counted <= 12


@pytest.mark.parametrize("node", [generate_cited_answer, generate_uncited_answer])
async def test_a_missing_question_or_message_is_said_to_be_none(bench: Bench, node: Any) -> None:
    context = bench.context(case(question="", narrative=""), system="heids")
    await run_node(node, {**STATE, "patient_question": "Why me?"}, context)
    assert "[Patient Narrative Context Begin]\n(none)\n" in last_turn(context)
    assert "[Clinician Question Begin]\nWhy me?\n" in last_turn(context)


async def test_after_a_rejection_the_faults_are_quoted(bench: Bench) -> None:
    context = bench.context(system="heids")
    rejected = [{"text": "It was stopped.", "faults": ["it cites nothing"]}]
    update = await run_node(generate_cited_answer, {**STATE, "rejected_answers": rejected}, context)
    turns = asked(context)[0].prompt[-2:]
    assert turns[0] == ("ai", "It was stopped.")
    assert "it cites nothing" in turns[1][1]
    assert facts(update)["attempt"] == 2


async def test_a_failed_call_fails_the_case(bench: Bench) -> None:
    with pytest.raises(NodeFailure, match="scripted timeout"):
        await run_node(
            generate_cited_answer,
            STATE,
            bench.context(system="heids", replies=script(cited_answer=failing("timeout"))),
        )


RULES = {"min_sentences": 1, "max_sentences": 10, "max_words": 12, "corrections": 1}
SHOWN = {"answer_evidence": ["1", "2", "3"]}


async def validated(bench: Bench, draft: str, rejected: int = 0, **settings: Any) -> Any:
    state = {**SHOWN, "draft_answer": draft, "rejected_answers": [{"text": "", "faults": []}] * rejected}
    return await run_node(
        validate_citations, state, bench.context(system="heids", **{"answer": RULES, **settings})
    )


async def test_an_answer_is_kept_without_its_citations_and_they_become_links(bench: Bench) -> None:
    update = await validated(bench, "Heparin |3| was stopped |1|. It was late.")
    assert update["answer"] == "Heparin was stopped. It was late."
    assert update["answer_sentences"][1] == {"id": "2", "text": "It was late."}
    assert update["alignment"] == {"1": ["1", "3"], "2": []}
    assert (update["aligned_answer"], update["evidence"]["threshold"]) == ("generated", ["1", "3"])
    assert (facts(update)["verdict"], facts(update)["uncited_sentences"]) == ("accepted", 1)


@pytest.mark.parametrize(
    ("draft", "fault"),
    [
        ("", "it is empty"),
        ("|1|", "it is empty"),
        ("Heparin was stopped.", "it does not cite the note"),
        ("Heparin was stopped. |9|", "it does not cite the note"),
        ("w " * 13 + ". |1|", "it has 14 words and the limit is 12"),
        ("It was. |1| And", "it does not end with a whole sentence"),
        (11 * "Ok. |1| ", "it has 11 sentences and needs 1 to 10"),
    ],
)
async def test_what_cannot_be_repaired_without_loss_is_sent_back(
    bench: Bench, draft: str, fault: str
) -> None:
    update = await validated(bench, draft)
    assert "answer" not in update
    assert fault in update["rejected_answers"][0]["faults"][0]
    assert facts(update)["verdict"] == "sent_back"


async def test_citations_count_as_words_on_request(bench: Bench) -> None:
    draft = "One two three four five six seven eight nine ten eleven. |1, 2|"
    assert "answer" in await validated(bench, draft)
    update = await validated(bench, draft, citation={"count_citations": True})
    assert "13 words, citations counted," in update["rejected_answers"][0]["faults"][0]


async def test_after_its_corrections_an_answer_is_cut_to_whole_sentences(bench: Bench) -> None:
    update = await validated(bench, "One two three. |1| " + 12 * "w " + ". |2|", rejected=1)
    assert update["answer"] == "One two three."
    assert update["evidence"]["threshold"] == ["1"]
    assert facts(update)["dropped_answer_sentences"] == 1
    assert flags(update) == {"answer_breaks_rules"}


async def test_an_answer_that_still_cites_nothing_is_accepted_with_flags(bench: Bench) -> None:
    update = await validated(bench, "Heparin was stopped |9|.", rejected=1)
    assert update["evidence"]["threshold"] == []
    assert flags(update) == {"answer_breaks_rules", "no_citations", "unknown_citations"}


async def test_ids_that_were_not_shown_and_malformed_citations_are_counted(bench: Bench) -> None:
    update = await validated(bench, "Heparin was stopped |1, 9, 8|. So |it| was.")
    assert (facts(update)["unknown_ids"], facts(update)["malformed_citations"]) == (2, 1)
    assert flags(update) == {"unknown_citations", "malformed_citations"}


async def test_an_answer_that_stays_empty_fails_the_case(bench: Bench) -> None:
    with pytest.raises(NodeFailure, match="the answer is empty"):
        await validated(bench, "|1|", rejected=1)
