"""The benchmarks that need a live server, against one that answers at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.bench import live, naive, saturation
from evals.bench.live import Tap
from evals.bench.workload import instant_server, invented_cases, ready, run_cases, six_calls, write_cases
from serving.protocol.limits import Limits


def silent(text: str) -> None:
    pass


def test_saturation_replays_exactly_the_requests_of_the_run() -> None:
    with instant_server() as server:
        options = saturation.Options(str(server.model), cases=1, repeats=2)
        given = saturation.measure(options, silent).as_json()
        per_run = given["details"]["requests"]
        # The dry run and probes send some too; each repeat sends the run and its replay.
        assert server.requests() >= 4 * per_run[0]
    assert per_run == [6, 6]
    assert given["count"] == 2
    # Both sides take milliseconds here, and the object rounds them to a tenth of one.
    assert given["ratio"] == pytest.approx(
        given["numerator"]["value"] / given["denominator"]["value"], rel=0.05
    )


def test_naive_asks_for_the_same_votes_and_reflections_one_by_one() -> None:
    with instant_server() as server:
        given = naive.measure(naive.Options(str(server.model), cases=2), silent).as_json()
    assert given["details"]["serial_requests"] == [12]
    assert given["details"]["ours_requests"] == [8]


async def test_a_side_has_one_salt_and_every_side_its_own(tmp_path: Path) -> None:
    with instant_server() as server:
        name, url = live.live_model(str(server.model))
        one = live.Live(name, url, write_cases(tmp_path, 1), six_calls(), Limits(2, 2))
        ours = await one.run(tmp_path / "run")
        replayed = await live.replay(url, ours, 2)
    salts = [{sent.body["cache_salt"] for sent in side} for side in (ours, replayed)]
    assert [len(salt) for salt in salts] == [1, 1]
    assert salts[0].isdisjoint(salts[1])
    bare = [{k: v for k, v in sent.body.items() if k != "cache_salt"} for sent in (*ours, *replayed)]
    assert bare[:6] == bare[6:]


async def test_a_dry_run_sends_nothing_but_the_probe(tmp_path: Path) -> None:
    with instant_server() as server:
        tap = Tap(sends=False)
        assembly = tap.on(await ready(six_calls(), write_cases(tmp_path, 1), server.model))
        probes = server.requests()
        await run_cases(assembly, tmp_path / "run", Limits())
        assert server.requests() == probes
    assert len(tap.requests) == 6


def test_a_restated_reflection_is_one_message_with_prompt_labels_and_instruction() -> None:
    vote = {"messages": [{"role": "system", "content": "Rules."}, {"role": "user", "content": "Note."}]}
    (message,) = naive.Restated(vote, 3, "Check again.").reflection('{"1": "essential"}')["messages"]
    assert message["role"] == "user"
    assert message["content"] == 'Rules.\n\nNote.\n\nYour labels:\n{"1": "essential"}\n\nCheck again.'


def test_more_cases_than_are_packaged_have_ids_and_texts_of_their_own() -> None:
    cases = invented_cases(95)
    assert len({case.id for case in cases}) == 95
    assert "-" not in cases[0].id
    assert f"{cases[0].id}-2" in {case.id for case in cases}
    assert len({case.narrative for case in cases}) == 95
