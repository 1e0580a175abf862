"""What commands that ask models share: signals, progress, the summary, the exit code."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import typer

from cli.progress import Progress, progress
from cli.summary import summarise
from cli.terminal import print_json
from runs.folder import RunFolder
from runs.sessions import recorded_models
from runs.watcher import Progress as CaseCounts
from serving.model_name import ModelName, Role, assign_roles

Result = TypeVar("Result")


class BatchWatcher:
    """Shows the counts of a batch."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._begin = time.monotonic()
        shown.start("cases")

    def notify(self, text: str) -> None:
        """Print a line that stays."""
        self._shown.notify(text)

    def update(self, progress: CaseCounts) -> None:
        """Show the counts, the tokens and the rate."""
        usage = progress.usage
        ended = progress.done + progress.failed + progress.waiting
        tokens = usage.input_tokens + usage.output_tokens
        seconds = max(time.monotonic() - self._begin, 1e-9)
        waiting = f"{progress.waiting} waiting, " if progress.waiting else ""
        cost = "" if usage.cost is None else f", cost {usage.cost:.4g}"
        rate = f"{tokens:,} tokens, {tokens / seconds:,.0f} tokens/s"
        self._shown.advance(ended, progress.total, f"{progress.failed} failed, {waiting}{rate}{cost}")


Work = Callable[[asyncio.Event, BatchWatcher], Awaitable[Result]]


def chosen_models(run: Path, given: list[str] | None) -> Mapping[Role, ModelName] | None:
    """Models by role, the run's where none is named; None where none is named at all."""
    return assign_roles(given, recorded_models(RunFolder(run).manifest)) if given else None


def run_session(work: Work[RunFolder], *, as_json: bool) -> None:
    """Run a batch to its end or to a signal, print what came of it, exit with its code."""
    folder, interrupted = until_signal(work)
    summary = summarise(folder)
    if as_json:
        print_json(summary.as_json())
    else:
        summary.print()
    if interrupted and folder.manifest.status == "interrupted":
        raise typer.Exit(130)
    if folder.manifest.counts.failed or folder.manifest.status != "finished":
        raise typer.Exit(1)


def until_signal(work: Work[Result]) -> tuple[Result, bool]:
    """The result of some work, and whether a signal asked it to stop."""
    return asyncio.run(_until_signal(work))


async def _until_signal(work: Work[Result]) -> tuple[Result, bool]:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with progress() as shown:
        main_task = asyncio.current_task()

        def end() -> None:
            if stop.is_set() and main_task is not None:
                # A second signal does not wait for anything.
                main_task.cancel()
            stop.set()
            shown.notify("stopping; finished work is kept")

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end)
        try:
            result = await work(stop, BatchWatcher(shown))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
    return result, stop.is_set()
