"""Real processes: how a server starts, dies and ends. The stand-in's engine does not heed SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serving.backends import connect
from serving.protocol.errors import ModelError
from serving.protocol.model_name import parse_model_name
from serving.vllm_server.find import Installation
from serving.vllm_server.server import (
    VllmServer,
    error_line,
    free_port,
    last_line,
    require_free,
    start_server,
    start_server_async,
)
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


def test_stop_twice_is_once(spec: ServeSpec, stand_in: StandIn) -> None:
    server = start_server(spec, say_nothing)
    server.stop()
    with start_server(spec, say_nothing):
        running = stand_in.running()
        server.stop()
        assert len(running) == 2 and stand_in.running() == running


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
    starting = asyncio.create_task(start_server_async(spec, stop=stop))
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


def test_the_wait_polls_and_does_not_spin(spec: ServeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []
    naps: list[float] = []
    is_ready, sleep = VllmServer.is_ready, asyncio.sleep

    def look(server: VllmServer) -> bool:
        looks.append(is_ready(server))
        return looks[-1]

    async def nap(seconds: float) -> None:
        naps.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(VllmServer, "is_ready", look)
    monkeypatch.setattr(asyncio, "sleep", nap)
    with start_server(spec, say_nothing):
        assert looks[-1] and not any(looks[:-1])
        assert len(naps) >= len(looks) - 1 > 0 and min(naps) >= 0.1


MEMORY = """\
$ python -m vllm.entrypoints.openai.api_server
(APIServer pid=25526) INFO 11-21 06:38:29 [model.py:733] Resolved architecture: LlamaForCausalLM
(APIServer pid=25526) WARNING 11-21 06:38:29 [system_utils.py:255] errors like `OSError: [Errno 24]` may come
(Worker pid=25553) ERROR 11-21 06:38:52 [multiproc_executor.py:1063] ValueError: Available memory is 10 GiB
(EngineCore pid=25540) Process EngineCore:
(EngineCore pid=25540) RuntimeError: Worker failed with error 'Available memory is 10 GiB'
(APIServer pid=25526)   File "utils.py", line 1431, in wait_for_engine_startup
(APIServer pid=25526)     raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 2 leaked objects
"""
FLAG = """\
usage: api_server.py [-h]
                     [--enable-log-requests | --no-enable-log-requests]
api_server.py: error: unrecognized arguments: --foo
"""
LENGTH = """\
    s.__pydantic_validator__.validate_python(ArgsKwargs(args, kwargs), self_instance=s)
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (100000) is greater than the derived max_model_len (8192).
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
GPU = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n[rank0]:[W1121] destroyed\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (MEMORY, "RuntimeError: Worker failed with error 'Available memory is 10 GiB'"),
        (FLAG, "api_server.py: error: unrecognized arguments: --foo"),
        (
            LENGTH,
            "Value error, User-specified max_model_len (100000) is greater than"
            " the derived max_model_len (8192).",
        ),
        (GPU, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB."),
        ("(EngineCore pid=1) INFO 11-21 06:38:29 [a.py:1] Loading\n\n", "Loading"),
        ("", ""),
    ],
)
def test_the_error_is_the_cause_and_not_what_follows_from_it(tmp_path: Path, text: str, line: str) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    assert error_line(log) == line


def test_the_last_line_is_without_prefix_colour_and_banner(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "$ python -m vllm\n(A pid=1) \x1b[32mINFO\x1b[0m 11-21 06:38:29 [model.py:1] Loading\n"
        "(A pid=1) INFO 11-21 06:38:29 [u.py:7]  \u2584\u2584 \u2584\u2588\n"
    )
    assert last_line(log) == "Loading"
