"""For all tests: no telemetry, signals as a terminal leaves them, drawn examples, and what was skipped."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import hypothesis
import pytest

from serving.policy import gate
from serving.policy.privacy import switch_off_telemetry
from tests.evigraph import Started, evigraph

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

switch_off_telemetry()

for _number in (signal.SIGHUP, signal.SIGINT):
    # `nohup` and `&` in a script have these ignored, and a child inherits that. A child of a process that
    # catches them begins with the default, and this process goes on as if it ignored them.
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda number, frame: None)

# A deadline for one example fails on a busy machine, and says nothing about the code.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.register_profile("random", max_examples=500, deadline=None, print_blob=True)
hypothesis.settings.load_profile("fixed")

LONGEST_FIRST = ("docs", "faults", "serving_embedded", "cli", "runs")
"""Folders whose modules take minutes: were they begun last, the other workers would have nothing left to do.
The faults mostly wait, so they leave the processor to the pages."""

SLOW = ("batched", "benchmarks", "faults", "serving_embedded", "serving_vllm", "zoo")
"""Folders that `make fast` leaves out as a whole."""

SPECIAL = ("vllm", "pasted", "studio", "scale", "matrix", "zoo")
"""Marks of tests that `make test` leaves out."""

ALONE = ("tests/docs/test_docs.py::test_page[",)
"""Tests that take half a minute each and share nothing: each may run on a separate worker."""

MAX_WORKERS = 8
"""A worker that runs torch takes up to 1.5 GB."""

REMEDIES = {
    "Chromium": "apt-get install chromium",
    "gcp-storage-emulator": "pip install gcsfs gcp-storage-emulator",
    "Azurite": "pip install adlfs; npm install azurite, and put its node_modules/.bin into PATH",
    "EVIGRAPH_TEST_VLLM_PYTHON": "make vllm, then name its interpreter",
    "evigraph models pull": "make test",
}
"""What to do about a skip, by words of its reason."""


@pytest.fixture(autouse=True)
def no_policy() -> Iterator[None]:
    """A process that has opened data with a policy stays bound by it, and many tests share one."""
    yield
    gate.release()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`, half as many again as processors: workers wait for servers now and then.

    Each takes 35 seconds of a processor for modules and commands to be imported before its first test.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(processors, min(3 * processors // 2, MAX_WORKERS))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """For `--dist loadscope`: tests of a module stay together, but for those that run alone."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scope_of = scheduler._split_scope
    scheduler._split_scope = lambda nodeid: nodeid if nodeid.startswith(ALONE) else scope_of(nodeid)
    return scheduler


_first_collects = pytest.StashKey[IO[bytes]]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Let the first worker collect alone, so that the others find the modules that it has compiled.

    In a fresh clone each would compile ten thousand of them, and rewrite the assertions of our tests.
    """
    stash = node.config.stash
    if _first_collects not in stash:
        # Held by this process until that worker has collected, or has ended.
        stash[_first_collects] = held = tempfile.NamedTemporaryFile()  # noqa: SIM115
        fcntl.flock(held, fcntl.LOCK_EX)
    else:
        node.workerinput["collects_after"] = stash[_first_collects].name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: WorkerController) -> None:
    fcntl.flock(node.config.stash[_first_collects], fcntl.LOCK_UN)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    fcntl.flock(node.config.stash[_first_collects], fcntl.LOCK_UN)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Wait for the turn; look for no garbage while modules are imported, and never again in what is left.

    Eight thousand tests and their modules are millions of objects; each full search goes through all of them.
    """
    if after := getattr(session.config, "workerinput", {}).get("collects_after"):
        with Path(after).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_SH)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Let extension modules find their objects freed at the end; some print what is left."""
    gc.unfreeze()


def is_slow(item: pytest.Item) -> bool:
    """Whether `make fast` leaves a test out, even without the mark `slow`.

    That holds for tests with another mark of ours, in a browser, in some folders, and in modules that start
    commands as processes.
    """
    if any(item.get_closest_marker(name) for name in SPECIAL) or item.path.parent.name in SLOW:
        return True
    if not isinstance(item, pytest.Function):
        return False
    starts = any(one is evigraph or one is Started for one in vars(item.module).values())
    return starts or not {"page", "browser"}.isdisjoint(item.fixturenames)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and begin with what takes longest; otherwise the order stays."""
    for item in items:
        if is_slow(item):
            item.add_marker("slow")

    def place(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=place)


def remedy(reason: str) -> str:
    """What lets a skipped test run; empty if that is not known."""
    return next((text for words, text in REMEDIES.items() if words in reason), "")


def skip_lines(reasons: Counter[str]) -> list[str]:
    """One line a reason: how many tests, why, and what to do."""
    return [
        f"{count} skipped: {reason}" + (f"; remedy: {remedy(reason)}" if remedy(reason) else "")
        for reason, count in reasons.most_common()
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what did not run and how to change that, just above pytest's own last line."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section("not run", yellow=True)
        for line in skip_lines(reasons):
            terminalreporter.line(line)
