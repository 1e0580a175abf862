"""Runs on a Ray cluster of several machines: each has its own address, processes and files.

They are namespaces of Linux, joined by a bridge, whose cables can be pulled. That needs root.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from runs.record.folder import CASES, RunFolder
from runs.upkeep.check import check
from tests.evigraph import COMMAND, ROOT, write_cases, write_recipe
from tests.runs.held_runs import HeldRun

pytestmark = pytest.mark.scale

CASES_OF_A_RUN = 12
HEAD, GPU, FIRST, SECOND = (f"10.77.0.{number}" for number in (1, 2, 11, 12))
TOKEN = "0" * 64
SERVER = """\
import asyncio, hashlib, json, os, sys
from evals.bench import instant_server

FOLDER = sys.argv[1]

class Counting(instant_server.Connection):
    def _answer(self, head, content):
        if head.startswith(b"GET"):
            super()._answer(head, content)
        else:
            asyncio.ensure_future(self._count(head, content))

    async def _count(self, head, content):
        peer = self._transport.get_extra_info("peername")[0]
        samples = json.loads(content).get("n") or 1
        with open(FOLDER + "/calls.txt", "a") as file:
            file.write(f"{peer} {samples} {hashlib.sha256(content).hexdigest()}\\n")
        await asyncio.sleep(0.1)
        while os.path.exists(FOLDER + "/held"):
            await asyncio.sleep(0.05)
        super()._answer(head, content)

async def serve():
    replies = instant_server.Replies()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Counting(replies, 0), "0.0.0.0", 8000)
    await server.serve_forever()

asyncio.run(serve())
"""


@dataclass(slots=True)
class Machine:
    """Processes that see each other, `/tmp/ray` and shared memory of their own, and one address."""

    address: str
    first: subprocess.Popen[bytes]

    @classmethod
    def switched_on(cls, address: str, hidden: Path | None) -> Machine:
        """With the files of this machine, except for those of a folder."""
        private = ["/dev/shm", "/tmp/ray", *([str(hidden)] if hidden else [])]  # noqa: S108
        places = [shlex.quote(one) for one in private]
        mounts = "".join(f"mkdir -p {place}; mount -t tmpfs tmpfs {place}; " for place in places)
        # They end with this process, however that comes.
        apart = "setpriv --pdeathsig=KILL unshare --net --mount --pid --uts --fork --kill-child --mount-proc"
        first = subprocess.Popen(
            [*shlex.split(apart), "sh", "-c", f"{mounts}ip link set lo up; echo ready; exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        assert first.stdout is not None and first.stdout.readline() == b"ready\n"
        return cls(address, first)

    @property
    def inside(self) -> int:
        """Its first process, by the number that it has here."""
        return int(Path(f"/proc/{self.first.pid}/task/{self.first.pid}/children").read_text())

    def begin(self, *words: str | Path, said: Path, folder: Path = ROOT) -> subprocess.Popen[bytes]:
        enter = ["nsenter", f"--target={self.inside}", "--net", "--mount", "--pid", "--uts"]
        there = ["sh", "-c", 'cd "$0" && exec "$@"', folder, *words]
        with said.open("ab") as file:
            return subprocess.Popen(
                [*enter, *map(str, there)],
                env=os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN},
                stdout=subprocess.DEVNULL,
                stderr=file,
            )

    def join_cluster(self, folder: Path) -> None:
        """Become a node: the head, or one with a worker."""
        ray = [str(Path(sys.executable).with_name("ray")), "start", f"--node-ip-address={self.address}"]
        part = (
            ["--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false"]
            if self.address == HEAD
            else []
        )
        part = part or [f"--address={HEAD}:6379", "--num-cpus=1"]
        said = folder / f"ray-{self.address}.txt"
        begun = self.begin(*ray, *part, "--disable-usage-stats", said=said)
        assert begun.wait(timeout=180) == 0, said.read_text()

    def switch_off(self) -> None:
        if self.first.poll() is None:
            self.first.kill()
            self.first.communicate()


class Whole(NamedTuple):
    """The run of one machine without a cluster: its `cases.jsonl`, and what it asked."""

    lines: bytes
    asked: Counter[str]


@dataclass(slots=True)
class Site(HeldRun):
    """Machines and the switch between them.

    Attributes:
        folder: Files of the head and of the GPU's machine, which the others do not see.
    """

    switch: Machine
    machines: dict[str, Machine] = field(default_factory=dict)
    server: subprocess.Popen[bytes] | None = None

    def add(self, address: str) -> Machine:
        machine = Machine.switched_on(address, None if address in (HEAD, GPU) else self.folder)
        at_switch = f"nsenter --target={self.switch.inside} --net ip link"
        there = f"nsenter --target={machine.inside} --net ip"
        _do(f"{at_switch} add {_port(address)} type veth peer name eth0 netns {machine.inside}")
        _do(f"{at_switch} set {_port(address)} master switch up")
        _do(f"{there} addr add {address}/24 dev eth0")
        _do(f"{there} link set eth0 up")
        self.machines[address] = machine
        return machine

    def cable(self, address: str, state: str) -> None:
        """Pull it (`down`) or plug it in (`up`)."""
        _do(f"nsenter --target={self.switch.inside} --net ip link set {_port(address)} {state}")

    def switch_off(self) -> None:
        for machine in (*self.machines.values(), self.switch):
            machine.switch_off()
        if self.server is not None:
            self.server.wait()

    def begin(self, *words: str | Path, session: str = "run") -> subprocess.Popen[bytes]:
        model = f"vllm:instant@http://{GPU}:8000/v1"
        given = ["tamu", "cases.jsonl", "--model", model, "--recipe", "lexical.yaml", "--out", "out"]
        session_words = [session, *(given if session == "run" else ["out"]), "--max-connections", "8"]
        on = [*words] or ["--on", f"ray://{HEAD}:6379"]
        return self.machines[HEAD].begin(
            *COMMAND, *session_words, "--no-probe", *on, said=self.folder / "said.txt", folder=self.folder
        )

    @property
    def calls(self) -> list[tuple[str, int, str]]:
        """Each request: the machine that sent it, its samples, and a hash of it."""
        path = self.folder / "calls.txt"
        lines = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
        return [(peer, int(samples), digest) for peer, samples, digest in lines]

    def callers(self) -> set[str]:
        return {peer for peer, _, _ in self.calls}

    def asked(self) -> Counter[str]:
        """How often a reply to each request was requested."""
        counts: Counter[str] = Counter()
        for _, samples, digest in self.calls:
            counts[digest] += samples
        return counts


def _can_make_machines() -> bool:
    tools = all(map(shutil.which, ("ip", "nsenter", "setpriv", "unshare")))
    return tools and subprocess.run(shlex.split("unshare --net true"), capture_output=True).returncode == 0


def _port(address: str) -> str:
    return f"to-{address.rpartition('.')[2]}"


def _do(command: str) -> None:
    subprocess.run(shlex.split(command), check=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    site = _site(tmp_path_factory.mktemp("whole"))
    try:
        assert site.begin("--concurrency", "4").wait(timeout=300) == 0, site.said
        assert site.callers() == {HEAD}
        return Whole((site.folder / "out" / CASES).read_bytes(), site.asked())
    finally:
        site.switch_off()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A head and two machines with a worker each."""
    made = _site(tmp_path)
    try:
        made.machines[HEAD].join_cluster(tmp_path)
        for address in (FIRST, SECOND):
            made.add(address).join_cluster(tmp_path)
        yield made
    finally:
        made.switch_off()


def _site(folder: Path) -> Site:
    if not _can_make_machines():
        pytest.skip("machines are namespaces of Linux, which need root, iproute2 and util-linux")
    write_cases(folder / "cases.jsonl", CASES_OF_A_RUN)
    write_recipe(folder)
    (folder / "server.py").write_text(SERVER)
    site = Site(folder, Machine.switched_on("", None))
    _do(f"nsenter --target={site.switch.inside} --net ip link add switch type bridge")
    _do(f"nsenter --target={site.switch.inside} --net ip link set switch up")
    site.add(HEAD)
    site.server = site.add(GPU).begin(
        sys.executable, folder / "server.py", folder, said=folder / "server.txt"
    )
    return site


def _assert_whole(site: Site, whole: Whole) -> None:
    assert (site.folder / "out" / CASES).read_bytes() == whole.lines
    assert not check(RunFolder(site.folder / "out")).faults
    assert not whole.asked - site.asked()
    assert whole.asked.total() == site.stored()


def _again(site: Site, whole: Whole, fault: str, in_flight: int) -> int:
    """Replies that were requested again, with a row of the table of faults for `pytest -s`."""
    asked = site.asked()
    again = (asked - whole.asked).total()
    counts = f"{asked.total()} calls, {site.stored()} stored, {in_flight} in flight, {again} asked again"
    sys.stdout.write(f"\n{fault}: {counts}\n")
    return again


def _asked_by(site: Site, peer: str, since: int) -> int:
    """Replies that a machine requested since so many requests."""
    return sum(samples for one, samples, _ in site.calls[since:] if one == peer)


def _begin_and_hold(site: Site) -> tuple[subprocess.Popen[bytes], int]:
    """A run in the middle, with calls of both machines in flight, and their number."""
    run = site.begin()
    site.wait(lambda: site.callers() == {FIRST, SECOND} and len(site.calls) > 16)
    site.hold()
    return run, site.asked().total() - site.stored()


def test_two_machines_run_what_one_does(site: Site, whole: Whole) -> None:
    assert site.begin().wait(timeout=300) == 0, site.said
    _assert_whole(site, whole)
    assert site.callers() == {FIRST, SECOND}
    assert _again(site, whole, "two machines", 0) == 0
    assert "2 workers on 2 nodes" in site.said


def test_a_machine_without_power(site: Site, whole: Whole) -> None:
    run, in_flight = _begin_and_hold(site)
    site.machines[FIRST].switch_off()
    site.release()
    assert run.wait(timeout=300) == 0, site.said
    _assert_whole(site, whole)
    assert f"a worker on {FIRST} was lost" in site.said
    assert 0 < _again(site, whole, "a machine without power", in_flight) <= in_flight


def test_a_machine_without_network_that_comes_back(site: Site, whole: Whole) -> None:
    run, in_flight = _begin_and_hold(site)
    before = len(site.calls)
    site.cable(FIRST, "down")
    site.wait(lambda: f"a worker on {FIRST} was lost" in site.said)
    site.cable(FIRST, "up")
    site.release()
    assert run.wait(timeout=300) == 0, site.said
    _assert_whole(site, whole)
    # Its worker ends once it learns that it was given up. Until then it sends what waited for a connection.
    late = _asked_by(site, FIRST, before)
    again = _again(site, whole, "a machine without network that comes back", in_flight)
    assert 0 < again <= in_flight + late


def test_the_head_without_network(site: Site, whole: Whole) -> None:
    run, in_flight = _begin_and_hold(site)
    site.cable(HEAD, "down")
    site.wait(lambda: "no worker of Ray is ready" in site.said)
    site.cable(HEAD, "up")
    site.release()
    for address in (FIRST, SECOND):
        site.machines[address].switch_off()
    third = "10.77.0.13"
    site.add(third).join_cluster(site.folder)
    assert run.wait(timeout=300) == 0, site.said
    _assert_whole(site, whole)
    assert third in site.callers()
    assert 0 < _again(site, whole, "the head without network", in_flight) <= in_flight


def test_a_short_break_of_the_network(site: Site, whole: Whole) -> None:
    run, in_flight = _begin_and_hold(site)
    site.cable(FIRST, "down")
    time.sleep(3)
    site.cable(FIRST, "up")
    site.release()
    assert run.wait(timeout=300) == 0, site.said
    _assert_whole(site, whole)
    assert _again(site, whole, "a short break of the network", in_flight) <= in_flight


def test_a_policy_refuses_machines_that_it_does_not_name(site: Site, whole: Whole) -> None:
    policy = site.folder / "policy.yaml"
    policy.write_text(f"name: notes\nhosts: [loopback, {GPU}]\n")
    assert site.begin().wait(timeout=300) == 2
    assert re.search(rf"policy 'notes'.*({FIRST}|{SECOND})", site.said)
    assert not site.calls
    policy.write_text(f"name: notes\nhosts: [loopback, {GPU}, {FIRST}, {SECOND}]\n")
    assert site.begin().wait(timeout=300) == 0, site.said
    _assert_whole(site, whole)
