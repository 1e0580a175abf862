"""What `run`, `resume` and `retry` share: signals, progress, the summary, the exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer

from cli.progress import BatchProgress
from cli.summary import summarise
from cli.terminal import print_json
from runs.folder import RunFolder

Result = TypeVar("Result")
Work = Callable[[asyncio.Event, BatchProgress], Awaitable[Result]]


def run_session(work: Work[RunFolder], *, as_json: bool) -> None:
    """Run a batch to its end or to a signal, print what came of it, exit with its code."""
    folder, interrupted = asyncio.run(until_signal(work))
    summary = summarise(folder)
    if as_json:
        print_json(summary.as_json())
    else:
        summary.print()
    if interrupted and folder.manifest.status == "interrupted":
        raise typer.Exit(130)
    if folder.manifest.counts.failed or folder.manifest.status != "finished":
        raise typer.Exit(1)


async def until_signal(work: Work[Result]) -> tuple[Result, bool]:
    """The result of some work, and whether a signal asked it to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with BatchProgress() as progress:
        main_task = asyncio.current_task()

        def end() -> None:
            if stop.is_set() and main_task is not None:
                # A second signal does not wait for anything.
                main_task.cancel()
            stop.set()
            progress.remark("stopping; what is done is kept")

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end)
        try:
            result = await work(stop, progress)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
    return result, stop.is_set()
