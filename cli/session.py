"""Common parts of commands that call models: signals, progress, summary, exit code."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from cases.texts import per_time, plural
from cli.progress import Progress, progress
from cli.summary import cost_in_budget, summarise
from cli.terminal import Result, duration, messages, print_message
from runs.execute.watcher import Pace, PaceMeter
from runs.execute.watcher import Progress as CaseCounts
from runs.record.folder import RunFolder
from runs.upkeep.away import away_batches
from serving.protocol.model_name import ModelName, Role, assign_roles

Made = TypeVar("Made")


class BatchWatcher:
    """Shows how far a batch is."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._meter = PaceMeter()
        self._ended: list[int] = []
        shown.start("cases", timed=False)

    @property
    def cases_run(self) -> int:
        """Cases that have ended under this watch."""
        return self._ended[-1] - self._ended[0] if self._ended else 0

    def notify(self, text: str) -> None:
        """Print a line that stays."""
        self._shown.notify(text)

    def update(self, progress: CaseCounts) -> None:
        """Show how many cases have ended, the time left, the cost and the pace."""
        self._ended = [*self._ended[:1], progress.ended]
        details = batch_details(progress, self._meter.read(progress, time.monotonic()))
        self._shown.advance(progress.ended, progress.total, details)


def batch_details(progress: CaseCounts, pace: Pace) -> str:
    """Time left, cost, counts and pace of a batch, most wanted first: a narrow terminal cuts the end off."""
    usage = progress.usage
    tokens = usage.input_tokens + usage.output_tokens
    parts = [f"{progress.ended / progress.total:.0%}"] if progress.total else []
    parts += [f"{progress.failed:,} failed"] if progress.failed else []
    parts += [] if pace.seconds_left is None else [f"{duration(pace.seconds_left)} left"]
    parts += [] if progress.cost is None else [f"cost {cost_in_budget(progress.cost, progress.max_cost)}"]
    parts += [f"{progress.waiting:,} waiting"] if progress.waiting else []
    parts += [f"{plural(progress.away, 'call')} away in batches"] if progress.away else []
    parts += [f"{progress.under_way:,} under way"] if progress.under_way else []
    if usage.calls:
        rates = {"call": pace.calls_per_second, "token": pace.tokens_per_second}
        parts += [per_time(rate, noun) for noun, rate in rates.items() if rate]
        parts += [plural(usage.calls, "call"), plural(tokens, "token")]
    return ", ".join(parts)


Work = Callable[[asyncio.Event, BatchWatcher], Awaitable[Made]]


def chosen_models(run: Path, given: list[str] | None) -> Mapping[Role, ModelName] | None:
    """Models by role, the run's where none is named; None where none is named at all."""
    return assign_roles(given, RunFolder(run).manifest.model_names) if given else None


def run_session(work: Work[RunFolder], *, command: str, detached: bool = False) -> Result:
    """Run a batch to its end or to a signal; if it is detached, it may end while batches are away."""
    watchers: list[BatchWatcher] = []

    async def watched(stop: asyncio.Event, watcher: BatchWatcher) -> RunFolder:
        watchers.append(watcher)
        return await work(stop, watcher)

    folder, interrupted = until_signal(watched)
    summary, cases_run = summarise(folder), watchers[0].cases_run
    if not cases_run and folder.manifest.status == "finished":
        print_message(f"nothing to {command}: {_why(folder)}")
    code = _exit_code(folder, interrupted=interrupted, detached=detached)
    return Result({**summary.as_json(), "cases_run": cases_run}, summary.print, code)


def _exit_code(folder: RunFolder, *, interrupted: bool, detached: bool) -> int:
    manifest = folder.manifest
    if interrupted and manifest.status == "interrupted":
        return 130
    if manifest.status == "interrupted" and detached and away_batches(folder.path).calls:
        return 0
    stopped = manifest.status != "finished" or manifest.sessions[-1].stopped_by is not None
    return int(stopped or manifest.counts.failed > 0)


def _why(folder: RunFolder) -> str:
    """Why a session had no case to run."""
    counts = folder.manifest.counts
    parts = [f"{counts.done:,} done"]
    if counts.failed:
        parts.append(f"{counts.failed:,} failed")
    if counts.waiting:
        parts.append(f"{counts.waiting:,} waiting for a person")
    return f"every case has ended ({', '.join(parts)})"


def until_signal(work: Work[Made]) -> tuple[Made, bool]:
    """The result of some work, and whether a signal asked it to stop.

    The first signal lets the work end in order. Ctrl-C after it ends the process at once, whatever that is
    doing; a run is resumable then, as after `kill -9`.
    """
    return asyncio.run(_until_signal(work))


async def _until_signal(work: Work[Made]) -> tuple[Made, bool]:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with progress() as shown:
        main_task = asyncio.current_task()

        def end() -> None:
            if stop.is_set() and main_task is not None:
                # A second signal does not wait for requests.
                main_task.cancel()
            stop.set()
            shown.notify("stopping; finished work is kept; Ctrl-C again ends at once")
            # A process that ends at once does not restore the terminal.
            messages().show_cursor()

        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            loop.add_signal_handler(number, end)
            # Runs in addition to `end`, also while the loop is busy or waits for its threads.
            signal.signal(number, _let_interrupts_kill)
        try:
            result = await work(stop, BatchWatcher(shown))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                if stop.is_set():
                    _let_interrupts_kill()
                elif handler is not None:
                    signal.signal(number, handler)
    return result, stop.is_set()


def _let_interrupts_kill(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
