"""Loading of heavy libraries: one thread at a time, offline, without noise; and texts that they can take."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from weights.registry import WeightsError

MAX_CHARACTERS = 20_000
"""Maximum length of a tokenized text.

Models read a few hundred tokens; a whole document would take seconds.
"""

LOADING = threading.RLock()
"""Held while a library or weights are loaded lazily.

The lazy modules of transformers can be seen half-initialised when two threads import them at once.
"""

_SPINS = "1000"
"""Rounds that a thread spins before it sleeps.

On two cores the embedded engine writes 20 tokens/s with 1,000 rounds, 16 with 300 and 21 with 3,000; next to
two busy processes 8.6 with 1,000, and 7 to 8 with 1,500 to 3,000.
"""

_Listener = Callable[[str, bool], None]
_listeners: list[_Listener] = []


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Hold `LOADING`, and say that something is loaded.

    Args:
        what: As people call it, such as `the sentence encoder minilm`.
    """
    with LOADING:
        for listener in tuple(_listeners):
            listener(what, True)
        try:
            yield
        finally:
            for listener in tuple(_listeners):
                listener(what, False)


@contextmanager
def listening(listener: _Listener) -> Iterator[None]:
    """Have a function called, in any thread, when something begins to load and when that has ended."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def stay_offline() -> None:
    """Keep the Hugging Face libraries from calling out. Has to run before their first import.

    Weights are always local folders here, so any request would be a metadata look-up that fails late
    and slowly on a machine without a network.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # The tokenizers' thread pool warns when a process that used it forks; batches here are small.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def let_threads_sleep() -> None:
    """Have threads of matrix products sleep soon after a product. Has to run before torch is imported.

    A thread that spins takes its core from the one it waits for, as soon as other processes keep the cores
    busy. One that sleeps at once takes as long to wake as a small product takes. Values of the user stay.
    """
    # GNU's OpenMP, which torch and scikit-learn bring along, and Intel's, which torch loads on some systems.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
    os.environ.setdefault("KMP_BLOCKTIME", "0")


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Switch off the loading bars of transformers, and restore the setting.

    They would be drawn over the command line's own progress.
    """
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def no_warnings() -> Iterator[None]:
    """Hide the warnings of transformers, and restore the setting."""
    from transformers.utils import logging

    shown = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        logging.set_verbosity(shown)


@contextmanager
def loading_model(folder: Path, kind: str) -> Iterator[None]:
    """Load a model of transformers: one thread at a time, offline, without noise.

    Args:
        folder: Of the model.
        kind: As people call it, such as `sentence encoder`.

    Raises:
        WeightsError: The folder is damaged, or holds another kind of model.
    """
    with loading(f"the {kind} {folder.name}"):
        stay_offline()
        from safetensors import SafetensorError

        try:
            with no_progress_bars():
                yield
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            article = "an" if kind[0] in "aeiou" else "a"
            raise WeightsError(f"{folder}: cannot be loaded as {article} {kind}: {error}") from error


def readable(text: str) -> str:
    """The beginning of a text, without lone surrogates, on which tokenizers fail."""
    return text[:MAX_CHARACTERS].encode("utf-8", "replace").decode()


def is_long(text: str) -> bool:
    """Whether `readable` leaves an end out."""
    return len(text) > MAX_CHARACTERS
