"""The thread that owns an engine."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from serving.embedded.chat_format import ChatFormat, chat_format
from serving.embedded.precision import Precision
from serving.embedded.request import GenerationStopped, Outcome, Reply, Request, Ticket
from weights.loading import loading, stay_offline

if TYPE_CHECKING:
    from serving.embedded.engine import Engine

Prepare = Callable[[ChatFormat], Request]
"""Makes the request in the worker's thread, where tokenising delays no other work."""

_EXIT_SECONDS = 20.0


class EngineWorker:
    """Runs every request for one model folder on one thread, so that concurrent callers share batches."""

    def __init__(self, folder: Path, precision: Precision) -> None:
        self._folder = folder
        self._precision: Precision = precision
        self._calls: SimpleQueue[tuple[Prepare, Future[Reply]] | None] = SimpleQueue()
        self._open: set[Future[Reply]] = set()
        self._should_stop = threading.Event()
        self._engine: Engine | None = None
        # A daemon, so that the exit of a caller never hangs on an unread reply.
        self._thread = threading.Thread(target=self._work, name=f"embedded {folder.name}", daemon=True)
        self._thread.start()

    def submit(self, prepare: Prepare) -> Future[Reply]:
        """Queue a request. Cancelling the future drops it, also in the middle of decoding."""
        future: Future[Reply] = Future()
        if self._should_stop.is_set():
            future.set_exception(GenerationStopped("the process is ending"))
        else:
            self._calls.put((prepare, future))
        return future

    def close(self) -> None:
        """Stop after the current step. Open requests end with `GenerationStopped`."""
        self._should_stop.set()
        self._calls.put(None)
        self._thread.join(_EXIT_SECONDS)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                self._serve(call)
            except Exception as error:  # all callers get the error, and the thread continues
                # Weights that cannot be loaded are not loaded again for each call that waits for them.
                waiting = self._waiting_calls() if self._engine is None else []
                self._open.update(future for _, future in (call, *waiting))
                for future in self._open:
                    _settle(future, error)
            self._open.clear()

    def _serve(self, call: tuple[Prepare, Future[Reply]]) -> None:
        engine, chat = self._loaded_engine(), chat_format(self._folder)
        first: list[tuple[Prepare, Future[Reply]]] = [call]

        def feed() -> list[Ticket]:
            calls = [*first, *self._waiting_calls()]
            first.clear()
            return [ticket for call in calls if (ticket := self._ticket(chat, *call)) is not None]

        engine.run(feed, self._should_stop)

    def _waiting_calls(self) -> list[tuple[Prepare, Future[Reply]]]:
        calls: list[tuple[Prepare, Future[Reply]]] = []
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return calls
            if call is None:
                # The outer loop has to see the end, once the engine has stopped.
                self._calls.put(None)
                return calls
            calls.append(call)

    def _ticket(self, chat: ChatFormat, prepare: Prepare, future: Future[Reply]) -> Ticket | None:
        self._open.add(future)
        try:
            request = prepare(chat)
        except Exception as error:  # a bad conversation is its caller's failure alone
            _settle(future, error)
            return None
        return Ticket(request, lambda outcome: _settle(future, outcome), future.cancelled)

    def _loaded_engine(self) -> Engine:
        if self._engine is None:
            with loading(f"the model {self._folder.name}"):
                stay_offline()
                from serving.embedded.engine import Engine

                tokenizer = chat_format(self._folder).tokenizer
                self._engine = Engine(self._folder, tokenizer, precision=self._precision)
        return self._engine


def worker_for(folder: Path, precision: Precision = "bf16") -> EngineWorker:
    """The worker of a model folder: one in a process, however many chat models name the folder."""
    with _workers_lock:
        if (folder, precision) not in _workers:
            _workers[folder, precision] = EngineWorker(folder, precision)
        return _workers[folder, precision]


def _settle(future: Future[Reply], outcome: Outcome) -> None:
    """Set an outcome unless the caller has gone or has one already."""
    if future.done() or not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


_workers: dict[tuple[Path, Precision], EngineWorker] = {}
_workers_lock = threading.Lock()


@atexit.register
def _close_all() -> None:
    # A thread that is inside torch while the interpreter is taken down can crash the exit.
    for worker in _workers.values():
        worker.close()
