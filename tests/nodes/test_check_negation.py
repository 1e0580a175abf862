from __future__ import annotations

import pytest

from nodes.evidence.check_negation import negation_cues
from tests.graph.routes import facts_of, route, run
from tests.nodes.builders import Bench, case, flags, labels, script


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("No evidence of bleeding.", "no evidence of"),
        ("Stroke was ruled out by MRI.", "was ruled out"),
        ("The patient denies chest pain.", "denies"),
        ("Cultures were negative for MRSA.", "negative for"),
        ("Afebrile without antibiotics.", "without"),
        ("Heparin was stopped.", None),
        ("Nodules and notes are no longer words of it: a nocturnal knot.", "no"),
        ("A notable cannot-miss nonunion.", None),
    ],
)
def test_a_cue_is_a_whole_word(text: str, cue: str | None) -> None:
    assert negation_cues({"1": text}).get("1") == cue


async def test_essential_sentences_with_a_cue_are_named_before_votes_are_counted(bench: Bench) -> None:
    note = ["No bleeding.", "Heparin was stopped.", "He denies pain."]
    replies = script(label=labels("1", "2"), reflect=labels("1", "2"))
    state = await run(bench.context(case(note=note), replies=replies, negation={"check": True}))
    assert facts_of(state, "check_negation") == [{"negations": {"1": "no"}}]
    assert flags(state) == {"negated_evidence"}
    nodes = route(state)
    assert nodes.index("check_negation") == nodes.index("aggregate_votes") - 1
