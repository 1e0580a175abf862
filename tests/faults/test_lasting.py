"""Faults that last: the run ends soon and says why; once the server is well, `retry` does the rest."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from serving.protocol.errors import ErrorClass
from tests.faults import acts
from tests.faults.bench import CASES_IN_BATCH, TIMEOUT_S, Bench
from tests.faults.conftest import Outcomes, StartServer
from tests.faults.faulty_server import Fault

AFTER = 40
"""Answers before the fault sets in: a quarter of the batch."""

PATIENT_S = 30.0
"""For the faults that send many megabytes: they must arrive."""


class Lasting(NamedTuple):
    fault: Fault
    error_class: ErrorClass
    words: str
    settings: Mapping[str, Any] = MappingProxyType({})
    timeout: float = TIMEOUT_S


def is_label(body: dict[str, Any]) -> bool:
    # Three votes at once, and the single votes that are asked to correct a reply.
    return body.get("n", 1) == 3 or "cannot be used" in body["messages"][-1]["content"]


def is_answer(body: dict[str, Any]) -> bool:
    return "structured_outputs" not in body


LASTING = {
    "engine dead": Lasting(
        Fault(acts.engine_dead, "health"), "connection", "EngineCore encountered an issue"
    ),
    "hangs": Lasting(Fault(acts.hang, "all"), "timeout", "no complete reply in 2 s"),
    "hangs, health well": Lasting(Fault(acts.hang), "timeout", "no complete reply in 2 s"),
    "429 for ever": Lasting(Fault(acts.too_many("0")), "rate_limit", "status 429: Too many requests"),
    "500 for ever": Lasting(Fault(acts.internal_error), "connection", "status 500: Internal Server Error"),
    "redirects": Lasting(Fault(acts.redirect), "connection", "redirects (status 307) to 127.0.0.2:9"),
    "reset": Lasting(Fault(acts.reset_in_the_body), "connection", "reset"),
    "half a JSON": Lasting(Fault(acts.half_a_json), "connection", "not JSON"),
    "white space reply": Lasting(Fault(acts.white_space_reply), "invalid_output", "ran into white space"),
    "endless body": Lasting(Fault(acts.endless_white_space), "timeout", "no complete reply in 2 s"),
    "flood": Lasting(
        Fault(acts.flood), "internal", "larger than 64 MB", {"concerns": is_label, "times": 4}, PATIENT_S
    ),
    "huge label reply": Lasting(
        Fault(acts.huge_reply),
        "invalid_output",
        "characters long",
        {"concerns": is_label, "times": 8},
        PATIENT_S,
    ),
    "huge answer": Lasting(
        Fault(acts.huge_reply),
        "invalid_output",
        "characters long",
        {"concerns": is_answer, "times": 6},
        PATIENT_S,
    ),
    # No reply is late here, so on a busy machine none may be given up that was sent whole.
    "another model": Lasting(
        Fault(acts.other_model), "internal", "'another-model', not 'tiny'", timeout=PATIENT_S
    ),
    "slow loris": Lasting(Fault(acts.slow_loris), "timeout", "no complete reply in 2 s"),
}


def scenario(name: str, bench: Bench, start_server: StartServer) -> None:
    lasting = LASTING[name]
    server = start_server(fault=lasting.fault, after=AFTER, **lasting.settings)
    bench.timeout = lasting.timeout
    if lasting.error_class == "internal":
        # It ends its case at once, and would cancel another call of the case while its reply goes out.
        bench.connections = 1
    ended = bench.do("run", server.model)
    assert ended.code == 1
    bench.check_summary(ended)
    bench.check_calls(server)
    assert set(ended.summary["errors"]) == {lasting.error_class}
    messages = bench.messages()
    assert all(lasting.words in message for message in messages), messages
    assert all(server.address in message for message in messages), messages
    if not lasting.settings:
        if lasting.error_class == "timeout":
            # Given up before every case has waited for it.
            assert server.broken <= CASES_IN_BATCH
        assert ended.summary["failed"] > CASES_IN_BATCH // 2
    server.repair()
    retried = bench.do("retry", server.model)
    bench.check_all_done(retried, server)


@pytest.mark.parametrize("name", LASTING)
def test_fault_that_lasts(name: str, outcomes: Outcomes) -> None:
    outcomes[name].result()
