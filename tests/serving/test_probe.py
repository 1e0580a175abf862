"""What is found out of a server, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from serving.backends import Backend
from serving.protocol.errors import ModelError
from serving.protocol.model_name import ModelName
from serving.protocol.request import Constraint
from serving.requests.probe import probe
from tests.serving.asks import Reach
from tests.serving.fake_abilities import Abilities
from tests.serving.fake_server import MODEL, FakeServer

LADDER: tuple[Constraint, ...] = ("grammar", "json_schema", "json_object", "none")


def obeying(*constraints: Constraint) -> Abilities:
    return Abilities(obeys=frozenset(constraints))


@pytest.fixture
def other() -> Iterator[FakeServer]:
    server = FakeServer()
    server.start()
    yield server
    server.stop()


async def test_a_server_that_does_all_is_used_as_it_is(server: FakeServer, backend: Backend) -> None:
    able, findings = await probe(backend)
    assert (findings.constraint, findings.many_samples, findings.logprobs) == ("grammar", True, True)
    assert able.constraints == LADDER and able.many_samples and able.logprobs
    assert (findings.context_length, findings.tried) == (4096, True)
    assert len(server.probes) == 2


@pytest.mark.parametrize(
    ("obeyed", "found"),
    [
        (("json_schema", "json_object"), "json_schema"),
        (("json_object",), "json_object"),
        ((), "none"),
    ],
)
async def test_a_constraint_that_is_passed_over_in_silence_is_not_used(
    server: FakeServer, backend: Backend, obeyed: tuple[Constraint, ...], found: Constraint
) -> None:
    server.abilities = obeying(*obeyed)
    able, findings = await probe(backend)
    assert findings.constraint == able.constraints[0] == found


@pytest.mark.parametrize("obeyed", ["json_schema", "object_schema", "json_object", "none"])
async def test_a_schema_inside_of_json_mode_is_tried_before_json_mode_alone(
    server: FakeServer, reach: Reach, obeyed: Constraint
) -> None:
    server.abilities = obeying(obeyed, "json_object") if obeyed != "none" else obeying()
    able, findings = await probe(reach(ModelName("openai", MODEL, server.url)))
    assert findings.constraint == able.constraints[0] == obeyed


async def test_a_constraint_that_is_refused_is_not_used(server: FakeServer, backend: Backend) -> None:
    server.abilities = Abilities(refuses=frozenset({"structured_outputs"}))
    _, findings = await probe(backend)
    assert (findings.constraint, findings.many_samples, findings.logprobs) == ("json_schema", True, True)


@pytest.mark.slow
async def test_an_error_of_the_server_means_that_an_ability_is_missing_if_it_answers_without(
    server: FakeServer, backend: Backend
) -> None:
    server.abilities = Abilities(refuses=frozenset({"structured_outputs", "n"}), refuses_with=500)
    _, findings = await probe(backend, max_retries=4)
    assert (findings.constraint, findings.many_samples, findings.logprobs) == ("json_schema", False, True)


@pytest.mark.parametrize("status", [429, 500])
async def test_a_server_that_answers_once_and_then_no_more_is_not_used(
    server: FakeServer, backend: Backend, status: int
) -> None:
    server.abilities = Abilities(status=status, sick_after=1)
    with pytest.raises(ModelError, match=rf"does not answer a small request: .*status {status}"):
        await probe(backend)


@pytest.mark.parametrize("status", [408, 429])
async def test_a_server_that_is_busy_for_a_while_lacks_nothing(
    server: FakeServer, backend: Backend, status: int
) -> None:
    server.abilities = Abilities(status=status, sick_after=1, sick_for=2)
    _, findings = await probe(backend, max_retries=1)
    assert (findings.constraint, findings.many_samples, findings.logprobs) == ("grammar", True, True)


async def test_a_key_that_is_refused_at_an_optional_part_ends_it(
    server: FakeServer, backend: Backend
) -> None:
    server.abilities = Abilities(refuses=frozenset({"logprobs"}), refuses_with=401)
    with pytest.raises(ModelError, match="VLLM_API_KEY"):
        await probe(backend)


async def test_a_model_that_the_list_lacks_is_used_with_a_warning_if_it_answers(
    server: FakeServer, reach: Reach
) -> None:
    said: list[str] = []
    unlisted = reach(ModelName("openai", "tini", server.url))
    _, findings = await probe(unlisted, report=said.append)
    assert findings.tried
    (warning,) = said
    assert warning.endswith("does not list 'tini'; it lists: tiny, other; it answers all the same")

    server.abilities = Abilities(status=404)
    with pytest.raises(ModelError, match=r"does not list 'tini'.*refuses a request to it"):
        await probe(unlisted)


@pytest.mark.parametrize("able", [Abilities(refuses=frozenset({"n"})), Abilities(choices=1)])
async def test_a_server_of_single_samples_keeps_its_constraint(
    server: FakeServer, backend: Backend, able: Abilities
) -> None:
    server.abilities = able
    changed, findings = await probe(backend)
    assert (findings.constraint, findings.many_samples, findings.logprobs) == ("grammar", False, True)
    assert not changed.many_samples


@pytest.mark.parametrize("able", [Abilities(refuses=frozenset({"logprobs"})), Abilities(logprobs=False)])
async def test_a_server_without_log_probabilities_keeps_the_rest(
    server: FakeServer, backend: Backend, able: Abilities
) -> None:
    server.abilities = able
    changed, findings = await probe(backend)
    assert (findings.constraint, findings.many_samples, findings.logprobs) == ("grammar", True, False)
    assert not changed.logprobs


@pytest.mark.parametrize(("thinks", "limits"), [(False, {64}), (True, {2048})])
async def test_only_a_model_that_thinks_gets_room_for_it_after_the_plainest_request(
    server: FakeServer, backend: Backend, thinks: bool, limits: set[int]
) -> None:
    server.abilities = Abilities(thinks=thinks)
    _, findings = await probe(backend)
    assert dict(findings.as_full_rows())["thinking"] == ("yes" if thinks else "not seen")
    first, *others = [body["max_tokens"] for body in server.probes]
    assert first == 2048 and set(others) == limits


async def test_vllm_is_never_sent_a_seed(server: FakeServer, backend: Backend) -> None:
    server.abilities = Abilities(refuses=frozenset({"n"}), repeats=True)
    able, findings = await probe(backend)
    assert (findings.takes_seed, able.takes_seed) == (None, False)
    assert all("seed" not in body for body in server.probes)


@pytest.mark.parametrize("repeats", [True, False])
async def test_a_seed_is_used_where_it_repeats_a_reply(
    server: FakeServer, reach: Reach, repeats: bool
) -> None:
    server.abilities = Abilities(repeats=repeats)
    able, findings = await probe(reach(ModelName("openai", MODEL, server.url)))
    assert findings.takes_seed is able.takes_seed is repeats
    assert sum("seed" in body for body in server.probes) == 2


@pytest.mark.parametrize("recorded", [True, False])
async def test_a_recorded_seed_is_kept_without_a_try(
    server: FakeServer, reach: Reach, recorded: bool
) -> None:
    server.abilities = Abilities(repeats=not recorded)
    able, _ = await probe(reach(ModelName("openai", MODEL, server.url)), takes_seed=recorded)
    assert able.takes_seed is recorded
    assert all("seed" not in body for body in server.probes)


@pytest.mark.parametrize(("status", "words"), [(500, "EngineDeadError"), (503, "EngineDeadError")])
async def test_a_server_that_lists_its_model_and_is_dead_is_found_out(
    server: FakeServer, backend: Backend, status: int, words: str
) -> None:
    server.abilities = Abilities(status=status)
    with pytest.raises(ModelError, match=words) as caught:
        await probe(backend)
    assert f"server {server.url} does not answer a small request" in str(caught.value)


@pytest.mark.parametrize("status", [429, 500])
async def test_a_failure_that_passes_is_tried_again_as_in_any_call(
    server: FakeServer, backend: Backend, status: int
) -> None:
    server.abilities = Abilities(status=status, sick_for=1)
    said: list[str] = []
    _, findings = await probe(backend, max_retries=1, report=said.append)
    assert (findings.constraint, len(server.probes)) == ("grammar", 3)
    assert len(said) == 1 and said[0].startswith(
        f"small request 1 of 2 failed: {server.url}: status {status}"
    )


async def test_a_refusal_is_not_tried_again(server: FakeServer, backend: Backend) -> None:
    server.abilities = Abilities(status=400)
    with pytest.raises(ModelError):
        await probe(backend, max_retries=4)
    assert len(server.probes) == 1


async def test_one_sick_server_of_two_is_reported_and_left_for_later(
    server: FakeServer, other: FakeServer, reach: Reach
) -> None:
    server.abilities = Abilities(status=500)
    said: list[str] = []
    able, findings = await probe(
        reach(ModelName("vllm", MODEL, f"{server.url},{other.url}")), report=said.append
    )
    assert [one.reached for one in able.servers] == [False, True]
    assert findings.tried and findings.constraint == "grammar"
    assert [line.endswith("; it is used once it does") for line in said] == [True]


async def test_of_several_servers_the_weakest_counts(
    server: FakeServer, other: FakeServer, reach: Reach
) -> None:
    server.abilities = Abilities(refuses=frozenset({"n"}))
    other.abilities = obeying("json_object")
    able, findings = await probe(reach(ModelName("vllm", MODEL, f"{server.url},{other.url}")))
    assert (findings.constraint, findings.many_samples, findings.logprobs) == ("json_object", False, True)
    assert able.constraints == ("json_object", "none")


async def test_without_requests_what_is_known_of_the_provider_counts(
    server: FakeServer, backend: Backend
) -> None:
    able, findings = await probe(backend, requests=False)
    assert server.probes == [] and not findings.tried
    assert able == backend
    assert "provider's facts" in str(findings)


async def test_no_text_of_a_case_is_in_a_probe(server: FakeServer, reach: Reach) -> None:
    server.abilities = Abilities(refuses=frozenset({"n"}))
    await probe(reach(ModelName("openai", MODEL, server.url)))
    prompts = {json.dumps(body["messages"]) for body in server.probes}
    assert len(prompts) == 3 and all(len(prompt) < 150 for prompt in prompts)
