"""The recipe for nodes of 8 GPUs: what it starts, and whether vLLM takes that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from serving.protocol.model_name import parse_model_name
from tests.evigraph import program
from tests.serving_vllm.test_recipes import PARSE
from tests.stand_in_vllm import make_model

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "vllm" / "8-gpus.sh"
MODEL = "meta-llama/Llama-3.3-70B-Instruct"

# Stands for the interpreter: it writes down what it is started with.
RECORDS = """\
#!{python}
import json, os, sys
name = "started-" + sys.argv[sys.argv.index("--port") + 1] + ".json"
with open(os.path.join({folder!r}, name), "w") as file:
    json.dump([os.environ["CUDA_VISIBLE_DEVICES"], sys.argv[1:]], file)
"""


def start(folder: Path, model: str = MODEL, **environment: str) -> subprocess.CompletedProcess[str]:
    python = folder / "python"
    python.write_text(RECORDS.format(python=sys.executable, folder=str(folder)))
    python.chmod(0o700)
    return subprocess.run(
        [shutil.which("bash") or "bash", SCRIPT, model],
        env={**os.environ, "PYTHON": str(python), "LOGS": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def started(folder: Path) -> list[tuple[str, list[str]]]:
    return [tuple(json.loads(file.read_text())) for file in sorted(folder.glob("started-*.json"))]


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ("8", ["0,1,2,3,4,5,6,7"]),
        ("4", ["0,1,2,3", "4,5,6,7"]),
        ("1", ["0", "1", "2", "3", "4", "5", "6", "7"]),
    ],
)
def test_replicas_share_no_gpu_and_each_is_named(tmp_path: Path, gpus: str, expected: list[str]) -> None:
    ended = start(tmp_path, REPLICA_GPUS=gpus)
    assert ended.returncode == 0, ended.stderr
    replicas = started(tmp_path)
    assert [devices for devices, _ in replicas] == expected
    urls = tuple(f"http://127.0.0.1:{8000 + number}/v1" for number in range(len(expected)))
    name = parse_model_name(ended.stdout.strip())
    assert (name.identity, name.base_urls) == (f"vllm:{MODEL}", urls)
    for _, command in replicas:
        assert command[command.index("--tensor-parallel-size") + 1] == gpus


def test_a_node_is_named_as_the_run_reaches_it(tmp_path: Path) -> None:
    ended = start(tmp_path, NODE="gpu01")
    assert ended.stdout == f"vllm:{MODEL}@http://gpu01:8000/v1,http://gpu01:8001/v1\n"


def test_gpus_that_do_not_come_out_even_are_refused(tmp_path: Path) -> None:
    ended = start(tmp_path, REPLICA_GPUS="3")
    assert (ended.returncode, ended.stderr) == (2, "GPUS=8 is not a multiple of REPLICA_GPUS=3\n")
    assert not started(tmp_path)


def test_the_script_lints() -> None:
    subprocess.run([program("shellcheck"), SCRIPT], check=True)


@pytest.mark.vllm
def test_vllm_takes_every_argument(tmp_path: Path) -> None:
    python = os.environ.get("EVIGRAPH_TEST_VLLM_PYTHON")
    if not python:
        pytest.skip("set EVIGRAPH_TEST_VLLM_PYTHON to an interpreter that has vLLM")
    # The engine's arguments look their model up, so a folder replaces it.
    assert start(tmp_path, str(make_model(tmp_path / "tiny"))).returncode == 0
    # After `-m` and the name of the module.
    commands = [command[2:] for _, command in started(tmp_path)]
    parsed = subprocess.run(
        [python, "-c", PARSE, json.dumps(commands)],
        env={**os.environ, "PYTHONPATH": "", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert parsed.returncode == 0, parsed.stderr[-2000:]
    assert json.loads(parsed.stdout.splitlines()[-1]) == [[4, 32768, 160]] * 2
