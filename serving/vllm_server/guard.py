"""Runs a command in a new process group, and ends the whole group when its starter is gone.

This file is run by itself (`python -I guard.py GRACE_S COMMAND...`) and imports only the standard library.
Its standard input is a pipe whose other end the starter holds. When that end is closed, on purpose or
because the starter was killed, the command gets SIGTERM, and its group SIGKILL after the grace time; one
byte asks for the same, and a second byte for SIGKILL at once. vLLM has several processes: it ends the
others itself when it is asked to, and those that it leaves behind are killed. The first line of standard
output is the id of the group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time

_PR_SET_CHILD_SUBREAPER = 36
_REAP_S = 2.0


def main() -> int:
    """Run the command; the exit code is its own, or 128 and the number of the signal that ended it."""
    grace, command = float(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        # Processes that vLLM leaves behind become children of this one, which waits for them. Usually the
        # first process of the system does that, but a container's often does not.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # In a new session, Ctrl-C at the terminal only reaches the starter, which then decides.
    process = subprocess.Popen(  # noqa: S603 - the command line is the starter's own
        command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True
    )
    print(process.pid, flush=True)  # noqa: T201 - the protocol with the starter
    threading.Thread(target=_obey, args=(process.pid, grace), daemon=True).start()
    code = process.wait()
    end_group(process.pid)
    deadline = time.monotonic() + _REAP_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.02)
    return code if code >= 0 else 128 - code


def _obey(group: int, grace: float) -> None:
    starter = sys.stdin.fileno()
    asked = os.read(starter, 1)
    with contextlib.suppress(ProcessLookupError):
        os.kill(group, signal.SIGTERM)
    if asked:
        select.select([starter], [], [], grace)
    else:
        time.sleep(grace)
    end_group(group)


def end_group(group: int) -> None:
    """Kill the remaining processes of a group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
