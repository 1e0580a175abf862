"""The loader promises variables to those who write prompts; the nodes have to give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from cases.records import Gold
from graph.system import find_system, systems
from nodes.answer.align_answer import align_answer
from nodes.answer.answer_exactly import answer_exactly
from nodes.answer.answer_ideally import answer_ideally
from nodes.answer.generate_answer import generate_answer
from nodes.citing.generate_cited_answer import generate_cited_answer
from nodes.citing.generate_uncited_answer import generate_uncited_answer
from nodes.evidence.label_evidence import label_evidence
from nodes.evidence.label_from_answer import label_from_answer
from nodes.evidence.reflect_on_labels import reflect_on_labels
from nodes.question.classify_intent import classify_intent
from nodes.question.interpret_question import interpret_question
from nodes.reading.explain_verdict import explain_verdict
from nodes.reading.read_passages import read_passages
from nodes.retrieval.reformulate_question import reformulate_question
from nodes.retrieval.rerank_by_model import rerank_by_model
from prompts import Contract
from serving.backends.scripted import made_up_reply
from tests.nodes.biomedical_builders import answered, question_context
from tests.nodes.builders import TWO_SENTENCES, Bench, asked, case, labels, run_node, script, shown
from tests.nodes.literature_builders import document, found, passages, read_as, says
from tests.nodes.search_builders import ranking

STATE = {
    "case_id": "q",
    "evidence_demonstrations": shown("p4"),
    "answer_demonstrations": shown("p4"),
    "shown_demonstrations": ["p4"],
    "answer_evidence": ["1"],
    "vote": {"vote": 0, "essential": ["1"]},
    "answer": TWO_SENTENCES,
    "retrieved": [{"id": "1", "score": 0.5}],
    "passages": passages("Mint tea helps."),
    "verdict": "yes",
    "evidence_passages": read_as("S"),
    "found_documents": found(document("a"), document("b")),
    "cross_encoder_ranking": ranking("a", "b"),
}


CONTRACTS: list[Contract] = [one for name in systems() for one in find_system(name).contracts]


def everything(folder: Path) -> str:
    """A version whose prompts use every variable that their contracts know."""
    for contract in CONTRACTS:
        used = sorted(contract.required | contract.optional)
        file: dict[str, object] = {"closing": [turn(used)]}
        if contract.demonstration:
            file["demonstration"] = [turn(sorted(contract.demonstration))]
        if contract.correction:
            file["correction"] = "${faults}"
        if contract.texts:
            file["texts"] = {text: turn(sorted(used))["text"] for text, used in contract.texts.items()}
        (folder / f"{contract.name}.yaml").write_text(yaml.safe_dump(file), "utf-8")
    return str(folder)


def turn(variables: list[str]) -> dict[str, str]:
    return {"role": "user", "text": "\n".join(f"<{name}>${{{name}}}" for name in variables)}


async def test_nodes_give_every_variable_of_their_prompts_contract(bench: Bench, tmp_path: Path) -> None:
    context = bench.context(prompts=everything(tmp_path))
    nodes: list[Any] = [classify_intent, label_evidence, reflect_on_labels, generate_answer]
    for node in (*nodes, interpret_question, align_answer):
        await run_node(node, STATE, context)
    cites = bench.context(system="heids", prompts=str(tmp_path))
    for node in (generate_cited_answer, generate_uncited_answer):
        await run_node(node, STATE, cites)
    weak = bench.context(case(gold=Gold(answer=TWO_SENTENCES)), system="weak_labels", prompts=str(tmp_path))
    await run_node(label_from_answer, STATE, weak)
    readings = bench.context(
        system="timeaware", prompts=str(tmp_path), replies=script(label=says("neutral"), answer="So [1].")
    )
    for node in (read_passages, explain_verdict):
        await run_node(node, STATE, readings)
    asked_b = question_context(bench, shots=[answered("s1")], prompts=str(tmp_path), exact={"shots": 1})
    for node in (answer_exactly, answer_ideally):
        await run_node(node, {"case_id": "q", "snippets": [], "exact_answer": "yes"}, asked_b)
    searches = bench.context(
        system="bioasq", prompts=str(tmp_path), replies=made_up_reply, documents={"reformulations": 2}
    )
    for node in (reformulate_question, rerank_by_model):
        await run_node(node, STATE, searches)
    contexts = (context, cites, weak, readings, asked_b, searches)
    calls = [call for one in contexts for call in asked(one)]
    for call in calls:
        text = "\n".join(part for _, part in call.prompt)
        assert "$" not in text
        assert text.startswith("<")
    formats = {call.format for call in calls}
    assert formats >= {"question", "alignment", "answer", "cited_answer", "explanation"}


async def test_a_reflection_prompt_can_show_the_labels(bench: Bench, tmp_path: Path) -> None:
    context = bench.context(prompts=everything(tmp_path))
    await run_node(reflect_on_labels, STATE, context)
    assert f"<labels>{labels('1')}" in asked(context)[0].prompt[-1][1]
