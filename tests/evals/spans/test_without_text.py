from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest

from evals.spans.encode import requests
from evals.spans.of_run import resource, traces
from evals.spans.otlp import json_lines
from runs.record.folder import RunFolder
from runs.record.without_text import because_without_text, error_type, facts_without_text

TEXTS = ("quagga", "zebra")
"""All texts of the cases say the one, all faulty replies and all messages of errors the other."""


def exported(run: RunFolder, *, payloads: bool) -> str:
    """Everything that leaves, as protobuf and as JSON."""
    spans = list(chain.from_iterable(traces(run, payloads=payloads)))
    found = b"".join(request.SerializeToString() for request in requests(resource(run), spans))
    found += b"".join(line for line, _ in json_lines(resource(run), spans))
    return found.decode("latin-1").lower()


def steps(run: RunFolder) -> list[dict[str, Any]]:
    return [step for _, lines in run.passes() for step in lines if step["node"] != "__end__"]


@pytest.mark.parametrize(
    ("node", "quoting"),
    [
        ("label_evidence", "failed_votes"),
        ("label_evidence", "rescued_votes"),
        ("align_answer", "rescued"),
        ("reflect_on_labels", "because"),
        ("generate_answer", "because"),
        ("generate_answer", "error"),
    ],
)
def test_the_trace_of_the_example_quotes(run: RunFolder, node: str, quoting: str) -> None:
    found = [
        str(step["facts"].get(quoting, step.get(quoting))) for step in steps(run) if step["node"] == node
    ]
    assert "zebra" in "".join(found)


def test_without_payloads_no_text_is_exported(run: RunFolder) -> None:
    found = exported(run, payloads=False)
    assert "label_evidence" in found
    assert [text for text in TEXTS if text in found] == []


def test_payloads_hold_prompts_replies_and_errors(run: RunFolder) -> None:
    found = exported(run, payloads=True)
    assert "sentence 4 of plain tells of a quagga." in found
    assert "the server quotes zebra" in found


def test_every_fact_of_every_node_is_known_here(run: RunFolder) -> None:
    for step in steps(run):
        told = {name for name, value in step["facts"].items() if value is not None}
        assert set(facts_without_text(step)) == told, step["node"]


def test_of_the_facts_of_an_unknown_node_numbers_alone_leave() -> None:
    step = {
        "node": "mine",
        "facts": {"words": 3, "kept": True, "text": "It", "list": ["It"]},
        "because": "It",
    }
    assert facts_without_text(step) == {"words": 3, "kept": True}
    assert because_without_text(step) is None


def test_a_failed_vote_keeps_its_class(run: RunFolder) -> None:
    (step,) = [s for s in steps(run) if s["case_id"] == "quotes" and s["node"] == "label_evidence"]
    assert facts_without_text(step)["failed_votes"] == {"1": "internal"}
    assert facts_without_text(step)["rescued_votes"] == ["0"]


def test_an_error_is_told_by_its_class_or_its_exception() -> None:
    assert error_type({"because": "failed: timeout: no reply", "error": "NodeFailure: no reply"}) == "timeout"
    assert error_type({"facts": {"error_class": "refusal"}, "error": "NodeFailure: no"}) == "refusal"
    assert error_type({"because": "", "error": "KeyError: 'a text'"}) == "KeyError"
    assert error_type({"because": "", "error": "a text of some kind"}) == "_OTHER"


def test_messages_have_the_form_of_the_conventions(run: RunFolder) -> None:
    spans = chain.from_iterable(traces(run, payloads=True))
    chat = next(span for span in spans if span.name.startswith("chat "))
    sent = json.loads(str(chat.attributes["gen_ai.input.messages"]))
    (received,) = json.loads(str(chat.attributes["gen_ai.output.messages"]))
    assert {message["role"] for message in sent} >= {"system", "user"}
    assert sent[0]["parts"][0]["content"] == chat.attributes["llm.input_messages.0.message.content"]
    assert received["finish_reason"] == "stop"
    assert received["parts"] == [{"type": "text", "content": chat.attributes["output.value"]}]
