"""Real processes: how a server starts, dies and ends. The stand-in's engine does not heed SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serving.backends import connect
from serving.errors import ModelError
from serving.model_name import parse_model_name
from serving.vllm_server.find import Installation
from serving.vllm_server.ports import free_port, require_free
from serving.vllm_server.server import VllmServer, start_server, start_server_async
from serving.vllm_server.spec import ServeSpec, plan_server
from tests.stand_in_vllm import PYTHON, StandIn, wait_until


@pytest.fixture
def spec(stand_in: StandIn, model: Path) -> ServeSpec:
    return plan_server(Installation(PYTHON, "cpu"), str(model), free_port())


def say_nothing(_: str) -> None:
    pass


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def listening(port: int) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", port)):
        yield


def test_a_started_server_serves_the_model_under_its_name(spec: ServeSpec) -> None:
    with start_server(spec, say_nothing) as server:
        assert server.model_string == f"vllm:tiny@http://127.0.0.1:{spec.port}/v1"
        assert connect(parse_model_name(server.model_string)).context_length == 100_000


def test_stop_leaves_no_process_and_frees_the_port(spec: ServeSpec, stand_in: StandIn) -> None:
    server = start_server(spec, say_nothing)
    assert len(stand_in.running()) == 2
    server.stop()
    assert stand_in.running() == []
    require_free(spec.host, spec.port)


def test_stop_leaves_not_even_a_zombie(spec: ServeSpec, stand_in: StandIn) -> None:
    start_server(spec, say_nothing).stop()
    assert [pid for pid in stand_in.started()[0].pids if exists(pid)] == []


def test_stop_twice_is_once(spec: ServeSpec) -> None:
    server = start_server(spec, say_nothing)
    server.stop()
    server.stop()


def test_a_stubborn_server_is_killed_after_the_grace_time(
    spec: ServeSpec, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_ACT", "stubborn")
    server = VllmServer(spec, grace_s=0.5)
    wait_until(server.is_ready)
    server.stop()
    assert stand_in.running() == []


def test_a_death_at_the_start_quotes_the_cause(spec: ServeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_ACT", "die")
    with pytest.raises(ModelError, match=r"ended with exit code 1: ValueError: the cache is too small \(log"):
        start_server(spec, say_nothing)


def test_a_taken_port_is_refused_before_anything_starts(spec: ServeSpec, stand_in: StandIn) -> None:
    with listening(spec.port), pytest.raises(ModelError, match=f"{spec.port}: .*; choose another --port"):
        start_server(spec, say_nothing)
    assert stand_in.started() == []


def test_an_interpreter_that_cannot_run_is_one_line(stand_in: StandIn, model: Path) -> None:
    spec = plan_server(Installation(model, "cpu"), str(model), free_port())
    with pytest.raises(ModelError, match="cannot start vLLM: PermissionError"):
        start_server(spec, say_nothing)


def test_a_kill_from_outside_is_told_and_takes_the_engine_along(spec: ServeSpec, stand_in: StandIn) -> None:
    with start_server(spec, say_nothing) as server:
        os.kill(stand_in.started()[0].pids[0], signal.SIGKILL)
        assert "was ended by SIGKILL (out of memory?)" in server.wait()
        wait_until(lambda: not stand_in.running())


def test_a_killed_guard_leaves_nothing_after_stop(spec: ServeSpec, stand_in: StandIn) -> None:
    server = start_server(spec, say_nothing)
    server._guard.kill()
    server.stop()
    wait_until(lambda: not stand_in.running())


def test_a_killed_starter_takes_the_server_along(spec: ServeSpec, stand_in: StandIn) -> None:
    program = (
        "import time\n"
        "from pathlib import Path\n"
        "from serving.vllm_server.server import VllmServer\n"
        "from serving.vllm_server.spec import ServeSpec\n"
        f"spec = ServeSpec(Path({str(spec.python)!r}), {spec.model!r}, 'tiny', {spec.port})\n"
        "server = VllmServer(spec, grace_s=0.5)\n"
        "time.sleep(600)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", program])
    stand_in.wait_for_start()
    starter.kill()
    starter.wait()
    wait_until(lambda: not stand_in.running())


def test_reports_say_how_the_start_goes_on(
    spec: ServeSpec, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_ACT", "hang")
    said: list[str] = []

    def report(text: str) -> None:
        said.append(text)
        if "Loading" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start_server(spec, report, every_s=0.1)
    assert said[-1].startswith("starting vLLM, ") and said[-1].endswith(" s: Loading the weights")
    assert stand_in.running() == []


async def test_a_stop_ends_the_wait_in_an_event_loop(
    spec: ServeSpec, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_ACT", "hang")
    stop = asyncio.Event()
    starting = asyncio.create_task(start_server_async(spec, say_nothing, stop=stop))
    await asyncio.to_thread(stand_in.wait_for_start)
    stop.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert stand_in.running() == []


def test_the_log_holds_the_command_and_the_output(spec: ServeSpec, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with start_server(spec, say_nothing, log=log):
        text = log.read_text()
    assert text.startswith(f"$ {PYTHON} -m vllm.entrypoints.openai.api_server --model")
    assert "Loading the weights" in text


def test_the_wait_polls_and_does_not_spin(spec: ServeSpec) -> None:
    began = time.process_time()
    with start_server(spec, say_nothing):
        pass
    assert time.process_time() - began < 2
