"""`evigraph serve` as a process, over a stand-in for vLLM that needs no weights."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serving.vllm_server.server import free_port, require_free
from tests.evigraph import Ended, evigraph
from tests.stand_in_vllm import PYTHON, StandIn, install, make_model, wait_until


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    folder = tmp_path / "stand-in"
    folder.mkdir()
    make_model(tmp_path / "tiny")
    stand_in = install(folder)
    yield stand_in
    stand_in.clean_up()


@contextmanager
def serving(
    stand_in: StandIn, port: int, act: str = "", hangup: str = "SIG_DFL"
) -> Iterator[subprocess.Popen[str]]:
    program = (
        f"import signal; signal.signal(signal.SIGHUP, signal.{hangup}); from cli.main import main; main()"
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            program,
            "serve",
            "tiny",
            "--port",
            str(port),
            "--python",
            str(PYTHON),
            "--log",
            "server.log",
        ],
        cwd=stand_in.folder.parent,
        env={**os.environ, **stand_in.environment, "STAND_IN_ACT": act},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def serve(stand_in: StandIn, *arguments: str) -> Ended:
    return evigraph(
        *("serve", "--python", str(PYTHON), *arguments),
        folder=stand_in.folder.parent,
        environment=stand_in.environment,
    )


def test_it_prints_the_model_string_and_what_to_type_next(stand_in: StandIn) -> None:
    port = free_port()
    with serving(stand_in, port) as process:
        said = read_until(process, "next ")
        process.send_signal(signal.SIGINT)
    model = f"vllm:tiny@http://127.0.0.1:{port}/v1"
    assert f"model    {model}\n" in said
    assert f"next     evigraph run tamu CASES... --model {model}\n" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(stand_in: StandIn, number: signal.Signals) -> None:
    port = free_port()
    with serving(stand_in, port) as process:
        read_until(process, "next ")
        assert len(stand_in.running()) == 2
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0
    assert "stopping vLLM" in err and "Traceback" not in err
    assert stand_in.running() == []
    require_free("127.0.0.1", port)


def test_a_hangup_that_nohup_has_ignored_stays_ignored(stand_in: StandIn) -> None:
    with serving(stand_in, free_port(), hangup="SIG_IGN") as process:
        read_until(process, "next ")
        process.send_signal(signal.SIGHUP)
        os.kill(stand_in.started()[0].pids[0], signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        # A hangup that counts ends it with 0.
        assert process.returncode == 1
    assert "stopping vLLM" not in err


def test_an_interrupt_before_it_is_ready_leaves_nothing(stand_in: StandIn) -> None:
    with serving(stand_in, free_port(), "hang") as process:
        stand_in.wait_for_start()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
    assert stand_in.running() == []


def test_kill_9_leaves_nothing(stand_in: StandIn) -> None:
    with serving(stand_in, free_port()) as process:
        read_until(process, "next ")
        process.kill()
        process.wait()
        wait_until(lambda: not stand_in.running())


def test_a_later_death_is_told(stand_in: StandIn) -> None:
    with serving(stand_in, free_port()) as process:
        read_until(process, "next ")
        os.kill(stand_in.started()[0].pids[0], signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1
    assert "evigraph: vLLM was ended by SIGKILL" in err
    assert stand_in.running() == []


def test_a_death_at_the_start_is_one_line_with_the_cause(stand_in: StandIn) -> None:
    with serving(stand_in, free_port(), "die") as process:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (2, "")
    (line,) = [line for line in err.splitlines() if line.startswith("evigraph: ")]
    assert "ValueError: the cache is too small (log: server.log)" in line


def test_a_taken_port_is_refused(stand_in: StandIn) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = serve(stand_in, "tiny", "--port", str(port))
    assert ended.code == 2
    assert f"127.0.0.1:{port}" in ended.line and "choose another --port" in ended.line


def test_print_command_starts_nothing(stand_in: StandIn) -> None:
    ended = serve(
        stand_in, "tiny", "--port", "8123", "--print-command", "--name", "mine", "--", "--seed", "3"
    )
    assert ended.code == 0
    folder = stand_in.folder.parent / "tiny"
    assert ended.out == (
        "VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_OFFLINE=1"
        f" VLLM_CPU_KVCACHE_SPACE=2 {PYTHON} -m vllm.entrypoints.openai.api_server --model {folder}"
        " --served-model-name mine --host 127.0.0.1 --port 8123 --dtype bfloat16 --enforce-eager --seed 3\n"
    )
    assert stand_in.started() == []


def test_a_recipe_file_needs_no_model_beside_it(stand_in: StandIn) -> None:
    (stand_in.folder.parent / "mine.yaml").write_text("# Mine\nmodel: tiny\nmax-num-seqs: 4\n")
    ended = serve(stand_in, "--recipe", "mine.yaml", "--print-command", "--", "--seed", "3")
    assert ended.code == 0
    assert ended.out.endswith("--max-num-seqs 4 --seed 3\n")
    assert "serve recipe mine.yaml: Mine" in ended.err


def test_two_models_are_one_too_many(stand_in: StandIn) -> None:
    assert "'other' is one too many" in serve(stand_in, "tiny", "other").line


def test_no_model_is_one_line(stand_in: StandIn) -> None:
    assert "name a model" in serve(stand_in).line


def test_recipes_are_listed_without_vllm(tmp_path: Path) -> None:
    ended = evigraph("serve", "--recipes", folder=tmp_path)
    assert ended.code == 0
    assert "llama-3.3-70b-8gpu" in ended.out and "smollm2-135m-cpu" in ended.out
