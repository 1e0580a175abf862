"""Job files for clusters: tasks of a SLURM array or pods of an Indexed Job, a shard each, and the merge.

Both run the same few lines of bash. A task whose shard has begun resumes it, so whatever ended it before, be
it a time limit, a lost node or a kill, is made good by starting it again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from runs.folder import MANIFEST

MAX_SHARDS = 1000
"""What SLURM allows in an array unless its MaxArraySize is raised."""

USER = 1000
"""Account of pods, that of the image in `deploy/`."""

GRACE_S = 120
"""Between the signal that a task is to end and the kill: calls under way are given up at once, so that what
is needed is the time to write the last cases."""

_VARIABLE = re.compile(r"(\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})([\w@%.:,=+/-]*)", re.ASCII)
_FINISHED = '^  "status": "finished"'
_OWN_DIRECTIVES = ("array", "dependency", "open-mode", "output", "requeue", "signal")
_DIRECTIVE = re.compile(r"--[a-z][a-z-]*(=[\w@%./:,=+-]+)?", re.ASCII)
_PLAIN = re.compile(r"[\w@%./:,=+-]+", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?", re.ASCII)
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|[KMGT]i?)?", re.ASCII)


class JobError(ValueError):
    """A value that a job file cannot hold, in one line."""


@dataclass(frozen=True, slots=True)
class ShardedRun:
    """A run to be made in shards.

    Attributes:
        run: Arguments of `evigraph run`, without its folder and its shard.
        session: Those of them that a resume is given too.
        count: How many shards.
        out: Folder of the shards, below `shards`, and of the merged run, `run`.
        setup: Lines of shell that come first, as they stand.
    """

    run: tuple[str, ...]
    session: tuple[str, ...]
    count: int
    out: PurePath
    setup: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no cluster takes."""
        if not 1 <= self.count <= MAX_SHARDS:
            raise JobError(f"--shards: at most {MAX_SHARDS:,}, as SLURM allows no longer arrays by default")

    def script(self, index: str, *, at_stop: str = "") -> str:
        """Lines of bash that run or resume a shard, and end with its exit code.

        Args:
            index: Name of the variable with the number of the shard.
            at_stop: A line for a task that was told to stop and has not finished.
        """
        begin = _words(["evigraph", "run", *self.run])
        session = _words(["", *self.session]) if self.session else ""
        lines = [
            "set -u",
            *self.setup,
            f'shard={shlex.quote(str(self.out / "shards"))}/$(printf %04d "${index}")',
            f'if [ -f "$shard/{MANIFEST}" ]; then',
            f'    set -- evigraph resume "$shard"{session}',
            "else",
            f'    set -- {begin} --shard "${index}/{self.count}" --out "$shard"',
            "fi",
            "child='' stopping=''",
            'trap \'stopping=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null\' TERM',
            '"$@" &',
            "child=$!",
            '[ -z "$stopping" ] || kill -TERM "$child" 2>/dev/null',
            "# A signal ends `wait` before the command has ended.",
            'while :; do wait "$child"; status=$?; kill -0 "$child" 2>/dev/null || break; done',
            "# A run with failed cases has ended all the same: retry them in the merged run.",
            f'if [ "$status" -eq 1 ] && grep -q \'{_FINISHED}\' "$shard/{MANIFEST}"; then status=0; fi',
            *([f'if [ -n "$stopping" ] && [ "$status" -ne 0 ]; then {at_stop}; fi'] if at_stop else []),
            'exit "$status"',
        ]
        return "\n".join(lines) + "\n"

    def merge_script(self) -> str:
        """Lines of bash that merge all shards."""
        shards, run = shlex.quote(str(self.out / "shards")), shlex.quote(str(self.out / "run"))
        # A failed case is no reason to call the merge failed.
        merge = f"evigraph merge {shards}/* --out {run}"
        return "\n".join(["set -u", *self.setup, f'{merge} || [ "$?" -eq 1 ]']) + "\n"


@dataclass(frozen=True, slots=True)
class Slurm:
    """What an array is asked for.

    Attributes:
        folder: Where the tasks run; paths are relative to it.
        time: Limit of a task, as `sbatch --time` takes it.
        parallel: Most tasks at once; None leaves it to SLURM.
        directives: Further options of `sbatch`, each as one word.
    """

    folder: PurePath
    time: str
    parallel: int | None = None
    directives: tuple[str, ...] = ()

    def files(self, run: ShardedRun) -> dict[str, str]:
        """The job files by name.

        Raises:
            JobError: A value cannot stand in a directive.
        """
        out = _plain("--out", str(run.out))
        for one in self.directives:
            if _DIRECTIVE.fullmatch(one) is None:
                raise JobError(f"--sbatch: {one!r} is no option of sbatch such as --partition=gpu")
            if one[2:].partition("=")[0] in _OWN_DIRECTIVES:
                raise JobError(f"--sbatch: {one} is set by the plan")
        common = [
            f"--job-name=evigraph-{_plain('--out', run.out.name)}",
            f"--time={_plain('--time', self.time)}",
            *self.directives,
        ]
        at_once = "" if self.parallel is None else f"%{self.parallel}"
        array = [
            *common,
            f"--array=0-{run.count - 1}{at_once}",
            f"--output={out}/log/%A_%a.txt",
            "--open-mode=append",
            # After a failure of its node. A time limit is no failure: see the end of the script.
            "--requeue",
            f"--signal=B:TERM@{GRACE_S}",
        ]
        enter = f"cd -- {shlex.quote(str(self.folder))} || exit\n"
        requeue = 'scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"'
        submit = (
            "set -eu\n"
            f"cd -- {shlex.quote(str(self.folder))}\n"
            f"job=$(sbatch --parsable {out}/array.sbatch)\n"
            "# The merge waits until every task has ended well; requeued ones are waited for.\n"
            f'sbatch --dependency="afterok:${{job%%;*}}" --kill-on-invalid-dep=yes {out}/merge.sbatch\n'
        )
        merge = [*common, f"--output={out}/log/merge-%j.txt"]
        return {
            "array.sbatch": _bash(array) + enter + run.script("SLURM_ARRAY_TASK_ID", at_stop=requeue),
            "merge.sbatch": _bash(merge) + enter + run.merge_script(),
            "submit.sh": _bash([]) + submit,
        }


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """What an Indexed Job is asked for.

    Attributes:
        name: Of the job.
        image: With `evigraph` in it.
        claim: PersistentVolumeClaim with the cases, which also gets the shards: all pods write to it.
        mount: Where it is mounted; paths are relative to it.
        parallel: Most pods at once.
        retries: How often a shard is begun again after a failure.
        cpu, memory, gpus: Of a pod.
        secret: Secret whose keys become variables of the environment, such as those of providers.
    """

    name: str
    image: str
    claim: str
    mount: str = "/data"
    parallel: int = 8
    retries: int = 6
    cpu: str = "2"
    memory: str = "4Gi"
    gpus: int = 0
    secret: str | None = None

    def manifests(self, run: ShardedRun) -> dict[str, dict[str, Any]]:
        """The objects by the name of their file.

        Raises:
            JobError: A value is none that Kubernetes takes.
        """
        for option, value in (("--name", self.name), ("--claim", self.claim), ("--secret", self.secret)):
            if value is not None and _NAME.fullmatch(value) is None:
                raise JobError(f"{option}: {value!r} is no name: lower-case letters, digits and '-'")
        for option, value in (("--cpu", self.cpu), ("--memory", self.memory)):
            if _QUANTITY.fullmatch(value) is None:
                raise JobError(f"{option}: {value!r} is no quantity such as 500m or 4Gi")
        array = self._job(self.name, run.script("JOB_COMPLETION_INDEX"), gpus=self.gpus)
        array["spec"] = {
            "completionMode": "Indexed",
            "completions": run.count,
            "parallelism": min(self.parallel, run.count),
            "backoffLimitPerIndex": self.retries,
            # One shard that cannot be run does not end the others.
            "maxFailedIndexes": run.count,
            "podFailurePolicy": {
                "rules": [
                    # A pod that had to leave its node has not failed.
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            **array["spec"],
        }
        merge = self._job(f"{self.name}-merge", run.merge_script(), gpus=0)
        merge["spec"] = {"backoffLimit": 2, **merge["spec"]}
        return {"job.yaml": array, "merge.yaml": merge}

    def _job(self, name: str, script: str, *, gpus: int) -> dict[str, Any]:
        amounts: dict[str, str] = {"cpu": self.cpu, "memory": self.memory}
        limits = {"memory": self.memory, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        container: dict[str, Any] = {
            "name": "evigraph",
            "image": self.image,
            "command": ["/bin/bash", "-c", script],
            "workingDir": self.mount,
            "resources": {"requests": amounts, "limits": limits},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "data", "mountPath": self.mount}],
        }
        if self.secret is not None:
            container["envFrom"] = [{"secretRef": {"name": self.secret}}]
        labels = {"app.kubernetes.io/name": "evigraph", "app.kubernetes.io/instance": name}
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_S,
            "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER},
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": self.claim}}],
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}},
        }


def _words(words: Sequence[str]) -> str:
    """Words of a command, each as it stands, but for a folder of a node that the node's variable names."""
    made = []
    for before, word in zip(["", *words], words, strict=False):
        name, _, value = word.partition("=")
        if before == "--scratch" and (found := _VARIABLE.fullmatch(word)):
            made.append(f'"{found[0]}"')
        elif name == "--scratch" and (found := _VARIABLE.fullmatch(value)):
            made.append(f'--scratch="{found[0]}"')
        else:
            made.append(shlex.quote(word) if word else "")
    return " ".join(made)


def _bash(directives: Sequence[str]) -> str:
    return "".join(["#!/bin/bash\n", *(f"#SBATCH {one}\n" for one in directives)])


def _plain(option: str, value: str) -> str:
    """A value for a directive, which stands in a comment and has no quotes.

    Raises:
        JobError: It has blanks or such.
    """
    if _PLAIN.fullmatch(value) is None:
        raise JobError(
            f"{option}: {value!r} cannot stand in a directive of SLURM; use letters, digits and ./_-"
        )
    return value
