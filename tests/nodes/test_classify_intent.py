from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cases.records import INTENTS
from nodes.core.failure import NodeFailure
from nodes.question.classify_intent import classify_intent, fallback_intent, likely_intent, parse_intent
from ranking.encoding.vectors import Vectors
from retrieval.embeddings import LexicalEmbedder
from retrieval.pools.pool import DemonstrationPool
from serving.protocol.errors import CallError, ErrorClass, InvalidReply
from tests.nodes.builders import (
    PRIMARY,
    Bench,
    asked,
    case,
    failing,
    flags,
    gold,
    in_turn,
    intent,
    pool_of,
    run_node,
    script,
)

STATE = {"case_id": "q"}
UNCLASSIFIED = {"primary": None, "secondary": None, "risk_level": "moderate"}


@pytest.mark.parametrize("name", INTENTS)
def test_every_intent_of_the_taxonomy_is_read(name: str) -> None:
    assert parse_intent(intent(name))["primary"] == name


@pytest.mark.parametrize("absent", [None, "none", "null", ""])
def test_an_absent_secondary_is_none(absent: str | None) -> None:
    assert parse_intent(intent(secondary=absent))["secondary"] is None


def test_a_secondary_that_repeats_the_primary_is_none() -> None:
    assert parse_intent(intent("treatment_plan", "treatment_plan"))["secondary"] is None


@pytest.mark.parametrize(
    ("reply", "field"),
    [
        (intent("surgery"), "primary"),
        (intent(secondary="surgery"), "secondary"),
        (intent(risk_level="extreme"), "risk_level"),
        (json.dumps({"primary": ["treatment_plan"], "risk_level": "low"}), "primary"),
        (json.dumps({"secondary": "treatment_plan", "risk_level": "low"}), "primary"),
    ],
)
def test_a_value_outside_the_taxonomy_is_named(reply: str, field: str) -> None:
    with pytest.raises(InvalidReply, match=repr(field)):
        parse_intent(reply)


def test_the_rescue_keeps_what_is_known() -> None:
    rescued = fallback_intent(intent("surgery", "treatment_plan", "extreme"))
    assert rescued == {"primary": None, "secondary": "treatment_plan", "risk_level": "moderate"}


@pytest.mark.parametrize("value", [{}, [], 3, None, {"primary": {}}])
def test_the_rescue_survives_odd_values(value: object) -> None:
    assert fallback_intent(json.dumps({"primary": value, "risk_level": value})) == UNCLASSIFIED


class Down(LexicalEmbedder):
    async def aembed(self, texts: Sequence[str]) -> Vectors:
        raise CallError("connection", "no embedder")


async def test_a_dry_run_takes_the_intent_of_the_nearest_other_case(tmp_path: Path) -> None:
    pool = await pool_of(tmp_path, case("p1", gold=gold()))
    down = {"demonstrations": DemonstrationPool(pool.folder, Down(256))}
    assert await likely_intent(case(), {"demonstrations": pool}) == {}
    other = case(note=["Another note."], narrative="Another.")
    assert await likely_intent(other, {"demonstrations": pool}) == {"primary": PRIMARY, "secondary": "none"}
    assert await likely_intent(other, down) == {}
    assert await likely_intent(other, {}) == {}


async def test_a_usable_reply_is_the_intent(bench: Bench) -> None:
    update = await run_node(classify_intent, STATE, bench.context())
    assert update["intent"] == json.loads(intent())
    assert flags(update) == set()


async def test_the_patients_question_stands_in(bench: Bench) -> None:
    context = bench.context()
    await run_node(classify_intent, {**STATE, "patient_question": "will I bleed"}, context)
    assert "will I bleed" in asked(context)[0].prompt[-1][1]


async def test_an_invalid_reply_is_corrected(bench: Bench) -> None:
    context = bench.context(replies=script(classify=in_turn("no idea", intent())))
    update = await run_node(classify_intent, STATE, context)
    assert update["intent"]["primary"] == json.loads(intent())["primary"]
    assert len(update["decisions"][0]["calls"]) == 2


@pytest.mark.parametrize("reply", ["no idea", intent("surgery", None, "extreme")])
async def test_an_intent_that_stays_invalid_is_left_open_and_flagged(bench: Bench, reply: str) -> None:
    update = await run_node(classify_intent, STATE, bench.context(replies=script(classify=reply)))
    assert update["intent"] == UNCLASSIFIED
    assert flags(update) == {"intent_unclassified"}
    assert len(update["decisions"][0]["calls"]) == 2


@pytest.mark.parametrize("error_class", ["timeout", "refusal", "context_length", "internal"])
async def test_any_other_failure_fails_the_case(bench: Bench, error_class: ErrorClass) -> None:
    context = bench.context(replies=script(classify=failing(error_class)))
    with pytest.raises(NodeFailure) as caught:
        await run_node(classify_intent, STATE, context)
    assert caught.value.error_class == error_class
