"""The job files of `deploy/`: outcomes of shards that they run, stop and kill."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes.client import V1Job

from runs.record.folder import CALLS, CASES, RunFolder
from runs.upkeep.check import check
from serving.journal.journal import Journal
from tests.evigraph import COMMAND, ROOT, evigraph, program, write_cases, write_recipe

ARRAY = ROOT / "deploy" / "slurm" / "array.sh"
JOB = ROOT / "deploy" / "kubernetes" / "job.yaml"
CASES_IN_BATCH = 45
COUNT = 3
GIVEN = ("tamu", "my cases.jsonl", "--model", "scripted:script.py:count", "--recipe", "lexical.yaml")
SESSION = ("--concurrency", "3")
MERGE = "evigraph merge night/shards/* --out night/run"
SCRIPT = """\
import asyncio, os
from serving.backends.scripted import made_up_reply

made = 0

async def count(call):
    global made
    made += 1
    if made > int(os.environ.get("STOPS_AFTER", 100_000)):
        # A task that is ended in the middle waits there for its signal.
        await asyncio.sleep(600)
    with open(os.environ["CALLS_FILE"], "a") as file:
        file.write(f"{call.role} {call.case_id} {call.sample}\\n")
    return made_up_reply(call)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Cases under a name that has to be quoted, and the programs that job files call."""
    write_cases(tmp_path / "my cases.jsonl", CASES_IN_BATCH)
    write_recipe(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    programs = tmp_path / "bin"
    programs.mkdir()
    command = " ".join(f"'{word}'" for word in COMMAND)
    for name, line in (("evigraph", f'exec {command} "$@"'), ("scontrol", 'echo "$@" >> scontrol.txt')):
        (programs / name).write_text(f"#!/bin/bash\n{line}\n")
        (programs / name).chmod(0o755)
    return tmp_path


def filled_in(template: str, *given: str) -> str:
    """The template with settings of its user."""
    settings = {"SHARDS": str(COUNT), "RUN": f"({shlex.join(given)})", "SESSION": f"({shlex.join(SESSION)})"}
    lines = []
    for line in template.splitlines():
        name = line.strip().partition("=")[0]
        value = settings.pop(name, None)
        lines.append(line if value is None else f"{line.partition(name)[0]}{name}={value}")
    assert not settings
    return "\n".join(lines)


def write_array(folder: Path, *given: str) -> None:
    (folder / "array.sh").write_text(filled_in(ARRAY.read_text(), *(given or GIVEN)))


def jobs(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The manifests of the shards and of the merge."""
    shards, merge = yaml.safe_load_all(text)
    return shards, merge


def command_of(job: dict[str, Any]) -> list[str]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return [*container["command"]]


def environment(folder: Path, index: int, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "SLURM_ARRAY_JOB_ID": "7",
        "SLURM_ARRAY_TASK_ID": str(index),
        "JOB_COMPLETION_INDEX": str(index),
        "CALLS_FILE": str(folder / "calls.txt"),
        **more,
    }


@contextlib.contextmanager
def task(folder: Path, index: int, *command: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A task of the array, in a new process group, of which nothing is left afterwards."""
    process = subprocess.Popen(
        command or ("bash", "array.sh"),
        cwd=folder,
        env=environment(folder, index, **more),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
        deadline = time.monotonic() + 60
        while has_processes(process.pid):
            # Until they have ended they keep their locks.
            assert time.monotonic() < deadline
            time.sleep(0.02)


def has_processes(group: int) -> bool:
    """Whether any process of a group has not ended yet; it may be no child of ours."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, found = path.read_text().rpartition(")")[2].split()[:3]
            if int(found) == group and state not in ("X", "Z"):
                return True
    return False


def begin(folder: Path, index: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a few cases of a shard have ended."""
    deadline = time.monotonic() + 200
    lines = folder / "night" / "shards" / f"000{index}" / CASES
    while not lines.exists() or lines.read_bytes().count(b"\n") < 3:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)


def made(folder: Path) -> Counter[str]:
    return Counter(line for line in (folder / "calls.txt").read_text().splitlines() if "probe" not in line)


def stored(run: Path) -> int:
    with contextlib.closing(Journal(run / CALLS, read_only=True)) as journal:
        return journal.count()


def test_tasks_that_are_stopped_and_killed_end_as_the_run_of_one_machine(folder: Path) -> None:
    write_array(folder)
    with task(folder, 0) as done:
        assert done.wait(timeout=300) == 0
    # The signal of `--signal=B:TERM` goes to the shell alone.
    with task(folder, 1, STOPS_AFTER="60") as stopped:
        begin(folder, 1, stopped)
        stopped.send_signal(signal.SIGTERM)
        assert stopped.wait(timeout=120) == 130
    assert (folder / "scontrol.txt").read_text() == "requeue 7_1\n"
    shards = folder / "night" / "shards"
    assert RunFolder(shards / "0001").manifest.status == "interrupted"
    with task(folder, 2, STOPS_AFTER="60") as killed:
        begin(folder, 2, killed)
    assert RunFolder(shards / "0002").manifest.status == "running"
    in_flight = sum(made(folder).values()) - sum(stored(one) for one in shards.iterdir())
    refused = evigraph("merge", *sorted(shards.iterdir()), "--out", "night/run", folder=folder)
    assert refused.code == 2 and "shard 1/3 has not ended (interrupted" in refused.line
    for index in (1, 2):
        with task(folder, index) as again:
            assert again.wait(timeout=300) == 0
    with task(folder, 0, "bash", "-c", MERGE) as merge:
        assert merge.wait(timeout=300) == 0
    of_shards = made(folder)
    (folder / "calls.txt").unlink()
    calls = {"CALLS_FILE": str(folder / "calls.txt")}
    whole = evigraph("run", *GIVEN, *SESSION, "--out", "whole", folder=folder, environment=calls)
    assert whole.code == 0
    merged = RunFolder(folder / "night" / "run")
    assert (merged.path / CASES).read_bytes() == (folder / "whole" / CASES).read_bytes()
    assert check(merged).faults == []
    # Nothing is paid for twice but what was under way when it was stopped.
    assert of_shards.keys() == made(folder).keys()
    assert (of_shards - made(folder)).total() <= in_flight <= 2 * 3 * 3


def test_a_pod_does_the_same(folder: Path) -> None:
    shards, merge = jobs(filled_in(JOB.read_text(), *GIVEN))
    command = command_of(shards)
    with task(folder, 0, *command, STOPS_AFTER="60") as evicted:
        begin(folder, 0, evicted)
        evicted.send_signal(signal.SIGTERM)
        assert evicted.wait(timeout=120) == 130
    for index in range(COUNT):
        with task(folder, index, *command) as done:
            assert done.wait(timeout=300) == 0
    with task(folder, 0, *command_of(merge)) as merged:
        assert merged.wait(timeout=300) == 0
    assert RunFolder(folder / "night" / "run").manifest.counts.done == CASES_IN_BATCH
    assert not (folder / "scontrol.txt").exists()


def test_a_failed_case_does_not_keep_its_shard_from_being_merged(folder: Path) -> None:
    with (folder / "my cases.jsonl").open("a") as file:
        file.write('{"case_id": "broken"}\n')
    write_array(folder, *GIVEN, "--case-ids", "k1,k2,broken")
    for index in range(COUNT):
        with task(folder, index) as done:
            assert done.wait(timeout=300) == 0
    # The merging pod does not fail because of the failed case.
    with task(folder, 0, *command_of(jobs(JOB.read_text())[1])) as merge:
        assert merge.wait(timeout=300) == 0
    counts = RunFolder(folder / "night" / "run").manifest.counts
    assert (counts.done, counts.failed) == (2, 1)


def test_a_task_that_cannot_run_fails(folder: Path) -> None:
    write_array(folder)
    (folder / "script.py").unlink()
    with task(folder, 0) as failed:
        assert failed.wait(timeout=300) == 2


@pytest.mark.parametrize("begun", [False, True])
def test_both_templates_give_evigraph_the_settings_as_they_are_quoted(folder: Path, begun: bool) -> None:
    """A shard that has begun is resumed, with the options of a session only."""
    nasty = "$(touch gone) `touch gone` '\"; touch gone; * \\"
    given = ("tamu", f"{nasty}/cases.jsonl", "--model", "scripted:auto")
    (folder / "bin" / "evigraph").write_text('#!/bin/bash\nprintf "%s\\0" "$@" > given\n')
    if begun:
        (folder / "night" / "shards" / "0002").mkdir(parents=True)
        (folder / "night" / "shards" / "0002" / "run.json").touch()
    write_array(folder, *given)
    pod = command_of(jobs(filled_in(JOB.read_text(), *given))[0])
    for command in (("bash", "array.sh"), pod):
        with task(folder, 2, *command) as done:
            assert done.wait(timeout=60) == 0
        words = (folder / "given").read_text().split("\0")[:-1]
        shard = "night/shards/0002"
        of_run = ["run", *given, *SESSION, "--shard", "2/3", "--out", shard]
        assert words == (["resume", shard, *SESSION] if begun else of_run)
    assert not (folder / "gone").exists()


def test_the_settings_of_a_template_agree() -> None:
    text = ARRAY.read_text()
    assert "#SBATCH --array=0-99%" in text and "\nSHARDS=100\n" in text
    assert "#SBATCH --output=night/log/" in text and "\nOUT=night\n" in text and MERGE in text
    shards, merge = jobs(JOB.read_text())
    assert "SHARDS=100\n" in command_of(shards)[2] and "OUT=night\n" in command_of(shards)[2]
    assert MERGE in command_of(merge)[2]
    spec = shards["spec"]
    assert (spec["completionMode"], spec["completions"], spec["maxFailedIndexes"]) == ("Indexed", 100, 100)
    assert merge["spec"]["suspend"] is True


def test_the_scripts_lint(tmp_path: Path) -> None:
    scripts = [ARRAY]
    for number, job in enumerate(jobs(JOB.read_text())):
        scripts.append(tmp_path / f"{number}.sh")
        scripts[-1].write_text("#!/bin/bash\n" + command_of(job)[2])
    subprocess.run([program("shellcheck"), *scripts], check=True)


def test_the_manifests_are_jobs_of_kubernetes() -> None:
    for manifest in jobs(JOB.read_text()):
        # A field that the API does not have is not there afterwards.
        assert V1Job.model_validate(manifest).model_dump(by_alias=True, exclude_none=True) == manifest
        # The types take an object without a field that the schema demands.
        kubernetes_validate.validate(manifest, "1.33", strict=True)
