"""A plugin of vLLM that ends its engine with the run that started it, also after `kill -9`.

The engine is a process of its own. When its parent is killed, it would wait for ever and occupy its GPU.
vLLM calls its plugins in every process that it starts, servers of others included, so this one does nothing
unless the parent is a process that asked for it.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import wait

PARENT_VARIABLE = "EVIGRAPH_VLLM_PARENT"


def guard_children() -> None:
    """Ask that engines started by this process end with it."""
    os.environ[PARENT_VARIABLE] = str(os.getpid())


def end_with_parent() -> None:
    """Watch the parent from now on, if it asked for that. vLLM finds this by the project's entry point."""
    parent = multiprocessing.parent_process()
    if parent is None or os.environ.get(PARENT_VARIABLE) != str(parent.pid):
        return

    def watch() -> None:
        # The sentinel is a pipe that the kernel closes with the parent, however that ends.
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="evigraph-guard", daemon=True).start()
