"""A run by files with vLLM's own `run-batch`: set EVIGRAPH_TEST_VLLM_PYTHON and run `pytest -m vllm`.

Takes minutes, as vLLM is started for each round. Run with `-s` to see what the commands print.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from runs.away import away_batches
from runs.folder import CALLS, RunFolder
from serving.journal import Journal
from tests.evigraph import evigraph
from tests.faults.real_vllm import SETTINGS
from weights.registry import cache_root

pytestmark = pytest.mark.vllm

CASES = os.environ.get("EVIGRAPH_TEST_CASES", "1")
NAME = "smollm2-135m"
SAMPLES = Path(str(resources.files("cases").joinpath("samples", "batch.xml")))
MOST_ROUNDS = 8
"""Three, and corrections."""
MAX_S = 2400.0

RECIPE = """\
system: tamu
embedding: lexical:256
evidence: {demonstrations: 0, votes: 2, threshold: 1, temperature: 1.5, reflection_temperature: 1.5}
answer: {demonstrations: 0, max_tokens: 96}
"""
"""Short prompts."""


def test_a_run_goes_through_vllms_files_to_its_end(tmp_path: Path) -> None:
    python = os.environ.get("EVIGRAPH_TEST_VLLM_PYTHON")
    if not python:
        pytest.skip("set EVIGRAPH_TEST_VLLM_PYTHON to an interpreter that has vLLM")
    (weights,) = (cache_root() / "models").glob(f"{NAME}-*")
    (tmp_path / "short.yaml").write_text(RECIPE)
    what = (str(SAMPLES), "--recipe", "short.yaml", "--limit", CASES, "--model", f"batch:vllm:{NAME}")
    ended = evigraph("run", "tamu", *what, "--out", "run", folder=tmp_path)
    assert ended.code == 0, ended.err
    run = tmp_path / "run"
    # Without the paths of this environment: the two never mix.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | SETTINGS
    rounds = 0
    while away_batches(run).calls and rounds < MOST_ROUNDS:
        rounds += 1
        requests, results = tmp_path / f"requests-{rounds}.jsonl", tmp_path / f"results-{rounds}.jsonl"
        exported = evigraph("batch", "export", "run", "--out", requests, "--json", folder=tmp_path).summary
        with (tmp_path / f"vllm-{rounds}.log").open("wb") as log:
            subprocess.run(
                [
                    *(Path(python).absolute(), "-m", "vllm.entrypoints.openai.run_batch"),
                    *("-i", requests, "-o", results, "--model", weights, "--served-model-name", NAME),
                    *("--dtype", "bfloat16", "--max-model-len", "8192", "--enforce-eager"),
                ],
                cwd=tmp_path,
                env=environment,
                stdout=log,
                stderr=log,
                timeout=MAX_S,
                check=True,
            )
        imported = evigraph("batch", "import", "run", results, "--json", folder=tmp_path).summary
        assert imported["rows"] == {"answered": exported["requests"]} and imported["left"] == 0, imported
        resumed = evigraph("resume", "run", folder=tmp_path, timeout=900)
        sys.stdout.write(f"{json.dumps([exported, imported])}\n{resumed.out}\n")
    manifest = RunFolder(run).manifest
    assert (manifest.status, manifest.counts.done) == ("finished", int(CASES))
    assert rounds >= 3
    journal = Journal(run / CALLS, read_only=True)
    assert journal.count() == sum(one.calls for one in manifest.sessions)
    journal.close()
