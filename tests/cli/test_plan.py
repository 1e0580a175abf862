"""Job files: what they hold, and what becomes of shards that are run, stopped and killed by them."""

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

from runs.check import check
from runs.folder import CALLS, CASES, RunFolder
from runs.shard_jobs import JobError, ShardedRun, Slurm
from serving.journal import Journal
from tests.evigraph import COMMAND, Ended, evigraph, program, write_cases, write_recipe

BASH = "/bin/bash"
CASES_IN_BATCH = 45
COUNT = 3
GIVEN = (
    *("tamu", "my cases.jsonl", "--model", "scripted:script.py:count", "--recipe", "lexical.yaml"),
    *("--concurrency", "3"),
)
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


def planned(folder: Path, *options: str, kind: str = "slurm", given: tuple[str, ...] = GIVEN) -> Ended:
    shards = ("--shards", str(COUNT), "--out", "night")
    return evigraph("plan", kind, *shards, *options, "--", *given, folder=folder)


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
    """A task of the array, in a group of processes of its own; nothing of it is left afterwards."""
    process = subprocess.Popen(
        command or ("bash", "night/array.sbatch"),
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
    assert planned(folder).code == 0
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
    with task(folder, 0, "bash", "night/merge.sbatch") as merge:
        assert merge.wait(timeout=300) == 0
    of_shards = made(folder)
    (folder / "calls.txt").unlink()
    whole = evigraph(
        "run", *GIVEN, "--out", "whole", folder=folder, environment={"CALLS_FILE": str(folder / "calls.txt")}
    )
    assert whole.code == 0
    merged = RunFolder(folder / "night" / "run")
    assert (merged.path / CASES).read_bytes() == (folder / "whole" / CASES).read_bytes()
    assert check(merged).faults == []
    # Nothing is paid for twice but what was under way when it was stopped.
    assert of_shards.keys() == made(folder).keys()
    assert (of_shards - made(folder)).total() <= in_flight <= 2 * 3 * 3


def test_a_pod_does_the_same(folder: Path) -> None:
    options = ("--image", "evigraph:1", "--claim", "notes", "--mount", str(folder))
    assert planned(folder, *options, kind="kubernetes").code == 0
    command = pod(folder / "night" / "job.yaml")["containers"][0]["command"]
    with task(folder, 0, *command, STOPS_AFTER="60") as evicted:
        begin(folder, 0, evicted)
        evicted.send_signal(signal.SIGTERM)
        assert evicted.wait(timeout=120) == 130
    for index in range(COUNT):
        with task(folder, index, *command) as done:
            assert done.wait(timeout=300) == 0
    with task(folder, 0, *pod(folder / "night" / "merge.yaml")["containers"][0]["command"]) as merge:
        assert merge.wait(timeout=300) == 0
    assert RunFolder(folder / "night" / "run").manifest.counts.done == CASES_IN_BATCH
    assert not (folder / "scontrol.txt").exists()


def pod(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text())["spec"]["template"]["spec"]
    assert isinstance(found, dict)
    return found


def test_a_failed_case_does_not_keep_its_shard_from_being_merged(folder: Path) -> None:
    with (folder / "my cases.jsonl").open("a") as file:
        file.write('{"case_id": "broken"}\n')
    assert planned(folder, given=(*GIVEN, "--limit", "46", "--case-ids", "k1,k2,broken")).code == 0
    for index in range(COUNT):
        with task(folder, index) as done:
            assert done.wait(timeout=300) == 0
    with task(folder, 0, "bash", "night/merge.sbatch") as merge:
        assert merge.wait(timeout=300) == 0
    counts = RunFolder(folder / "night" / "run").manifest.counts
    assert (counts.done, counts.failed) == (2, 1)


def test_a_task_that_cannot_run_says_so(folder: Path) -> None:
    assert planned(folder).code == 0
    (folder / "script.py").unlink()
    with task(folder, 0) as failed:
        assert failed.wait(timeout=300) == 2


NASTY = "$(touch gone) `touch gone` '\"; touch gone; * \\ \n# b"


def test_what_users_give_is_never_run(folder: Path) -> None:
    (folder / NASTY).mkdir()
    write_cases(folder / NASTY / "cases.jsonl", 2)
    given = (
        "tamu",
        f"{NASTY}/cases.jsonl",
        "--model",
        f"scripted:{NASTY.splitlines()[0]}/no.jsonl",
        "--recipe",
        "lexical.yaml",
    )
    assert planned(folder, given=given).code == 0
    (folder / "bin" / "evigraph").write_text('#!/bin/bash\nprintf "%s\\0" "$@" > given\n')
    with task(folder, 2) as done:
        done.wait(timeout=60)
    words = (folder / "given").read_text().split("\0")
    assert words[:-1] == ["run", *given, "--shard", "2/3", "--out", "night/shards/0002"]
    assert not (folder / "gone").exists()
    options = ("--image", NASTY, "--claim", "notes")
    evigraph(
        *("plan", "kubernetes", "--shards", "2", "--out", NASTY + "k", *options, "--", *given), folder=folder
    )
    manifest = yaml.safe_load((folder / (NASTY + "k") / "job.yaml").read_text())
    assert manifest["spec"]["template"]["spec"]["containers"][0]["image"] == NASTY
    assert not (folder / "gone").exists()


@pytest.mark.parametrize(
    ("options", "given", "fault"),
    [
        ((), (*GIVEN, "--out", "x"), "--out after the two dashes"),
        ((), (*GIVEN, "--shard", "0/2"), "--shard after the two dashes"),
        ((), (*GIVEN, "--vots", "3"), "No such option: --vots"),
        ((), ("tamu", "none.jsonl", *GIVEN[2:]), "none.jsonl: no such file"),
        ((), (*GIVEN, "--recipe", "zzz"), "zzz"),
        ((), (*GIVEN, "--case-ids", "k1,zzz"), "no case 'zzz'"),
        (("--time", "1\n#SBATCH --wrap=x"), GIVEN, "cannot stand in a directive"),
        (("--sbatch=--array=0-9",), GIVEN, "is set by the plan"),
        (("--sbatch=--wrap=a b",), GIVEN, "is no option of sbatch"),
        (("--shards", "1001"), GIVEN, "less than or equal to 1000"),
    ],
)
def test_what_would_fail_in_every_task_is_refused_before(
    folder: Path, options: tuple[str, ...], given: tuple[str, ...], fault: str
) -> None:
    ended = planned(folder, *options, given=given)
    assert ended.code == 2 and fault in " ".join(ended.err.split())
    assert not (folder / "night").exists()


def test_a_plan_does_not_replace_one_that_has_begun(folder: Path) -> None:
    planned(folder)
    (folder / "night" / "shards").mkdir()
    assert "of an earlier plan" in " ".join(planned(folder).err.split())


def test_a_resume_is_given_the_flags_of_a_session_again(folder: Path) -> None:
    planned(folder, given=(*GIVEN, "--limit", "9", "--no-probe", "--votes", "3", "--rpm", "5"))
    script = (folder / "night" / "array.sbatch").read_text()
    (resume,) = [line for line in script.splitlines() if "evigraph resume" in line]
    flags = resume.partition('"$shard"')[2].split()
    assert flags == ["--model", "scripted:script.py:count", "--rpm", "5", "--no-probe", "--concurrency", "3"]


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_a_variable_of_the_node_names_the_other_disk(folder: Path, joined: bool, begun: bool) -> None:
    word = "${DISK}/my.runs"
    given = (*GIVEN, f"--scratch={word}") if joined else (*GIVEN, "--scratch", word)
    assert planned(folder, given=(*given, "--scratch-lost")).code == 0
    (folder / "bin" / "evigraph").write_text('#!/bin/bash\nprintf "%s\\0" "$@" > given\n')
    if begun:
        (folder / "night" / "shards" / "0002").mkdir(parents=True)
        (folder / "night" / "shards" / "0002" / "run.json").touch()
    with task(folder, 2, DISK="/a disk; $(touch gone)") as done:
        done.wait(timeout=60)
    words = (folder / "given").read_text().split("\0")
    assert words[0] == ("resume" if begun else "run") and "--scratch-lost" in words
    place = "/a disk; $(touch gone)/my.runs"
    assert f"--scratch={place}" in words or words[words.index("--scratch") + 1] == place
    assert not (folder / "gone").exists()
    # Without it, nothing is written in some other place.
    (folder / "given").unlink()
    with task(folder, 2) as done:
        assert done.wait(timeout=60) != 0
    assert not (folder / "given").exists()


@pytest.mark.parametrize(
    "word", ["$(touch gone)", "$DISK/`touch gone`", "${DISK:-x}", '$DISK"; touch gone; "']
)
def test_of_the_other_disk_nothing_but_a_variable_is_expanded(word: str) -> None:
    script = sharded(run=("tamu", "cases.jsonl", "--scratch", word)).script("N")
    assert f"--scratch {shlex.quote(word)}" in script


def sharded(**more: Any) -> ShardedRun:
    given: dict[str, Any] = {"run": ("tamu", "cases.jsonl"), "session": (), "count": 4, "out": Path("night")}
    return ShardedRun(**given | more)


def test_an_array_has_at_most_a_thousand_tasks() -> None:
    assert "--array=0-999\n" in Slurm(Path("/here"), "1:00").files(sharded(count=1000))["array.sbatch"]
    assert "--array=0-3%2\n" in Slurm(Path("/here"), "1:00", 2).files(sharded())["array.sbatch"]
    with pytest.raises(JobError, match="at most 1,000"):
        sharded(count=1001)


def test_scripts_are_bash(folder: Path) -> None:
    planned(folder, "--setup", "source 'my env/bin/activate'")
    planned(folder, "--image", "a", "--claim", "b", "--out", "pods", kind="kubernetes")
    scripts = [folder / "night" / name for name in ("array.sbatch", "merge.sbatch", "submit.sh")]
    for name in ("job.yaml", "merge.yaml"):
        scripts.append(folder / f"{name}.sh")
        scripts[-1].write_text("#!/bin/bash\n" + pod(folder / "pods" / name)["containers"][0]["command"][2])
    for script in scripts:
        subprocess.run([BASH, "-n", script], check=True)
    # The first line of a user's own, the second is not looked for on this machine.
    subprocess.run([program("shellcheck"), "--exclude=SC1091", *scripts], check=True)


def test_manifests_are_jobs_of_kubernetes(folder: Path) -> None:
    options = ("--image", "registry/evigraph:1", "--claim", "notes", "--gpus", "1", "--secret", "keys")
    planned(folder, *options, kind="kubernetes")
    for name in ("job.yaml", "merge.yaml"):
        manifest = yaml.safe_load((folder / "night" / name).read_text())
        # A field that the API does not have is not there afterwards.
        assert V1Job.model_validate(manifest).model_dump(by_alias=True, exclude_none=True) == manifest
    spec = yaml.safe_load((folder / "night" / "job.yaml").read_text())["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", COUNT, COUNT)
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_manifests_keep_the_schema_of_kubernetes(folder: Path) -> None:
    """The types above take an object without a field that the schema demands."""
    planned(folder, "--image", "a", "--claim", "b", "--gpus", "1", "--secret", "keys", kind="kubernetes")
    for name in ("job.yaml", "merge.yaml"):
        kubernetes_validate.validate(
            yaml.safe_load((folder / "night" / name).read_text()), "1.33", strict=True
        )


@pytest.mark.parametrize(
    "options",
    [("--name", "My_Job"), ("--claim", "a b"), ("--memory", "4 GB"), ("--cpu", "two"), ("--secret", "$x")],
)
def test_what_kubernetes_does_not_take_is_refused(folder: Path, options: tuple[str, ...]) -> None:
    ended = planned(folder, "--image", "a", "--claim", "b", *options, kind="kubernetes")
    assert ended.code == 2 and options[0] in ended.err


def test_a_plan_as_an_object(folder: Path) -> None:
    said = planned(folder, "--json").summary
    assert said == {
        "files": ["night/array.sbatch", "night/merge.sbatch", "night/submit.sh"],
        "next": ["bash night/submit.sh"],
    }
