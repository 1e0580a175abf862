"""A vLLM server as a process that this one starts, waits for and ends."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from serving.protocol.errors import ModelError
from serving.vllm_server import guard
from serving.vllm_server.spec import LOOPBACK, ServeSpec

logger = logging.getLogger("evigraph.serving")

REPORT_EVERY_S = 15.0
GRACE_S = 10.0
"""How long vLLM may take to end before it is killed."""

_POLL_S = 0.25
_PROBE_TIMEOUT_S = 5.0

COMMAND_MARK = "$ "
"""Begins the log's first line, which is the command."""

_TAIL_BYTES = 1 << 18
_MAX_LINE = 400

# "(EngineCore pid=71) ERROR 11-21 06:38:52 [core.py:1510] "
_PREFIX = re.compile(
    r"^(\([\w .:-]+ pid=\d+\)\s*)?((DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:.]+ \[[^]]*\] ?)?"
)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ERROR = re.compile(r"^([\w.]*(Error|Exception|Interrupt)\b: |\S+: error: )")
_VALIDATION = re.compile(r"^[\w.]*ValidationError: \d+ validation error")
_WORDLESS = re.compile(r"^[\W_]*$")

# It only points to the message of another process.
_POINTER = "Engine core initialization failed"


class VllmServer:
    """A started server; ready once `start_server` has returned it. A context manager.

    Attributes:
        spec: Specification of its start.
        log: File that vLLM's output goes to.
        group: Id of the process group of all of vLLM's processes.
    """

    def __init__(self, spec: ServeSpec, log: Path | None = None, grace_s: float = GRACE_S) -> None:
        """Start the process; it is not ready yet.

        Raises:
            ModelError: The port is taken, or the process cannot be started.
        """
        require_free(spec.host, spec.port)
        self.spec = spec
        self.log = log or _new_log()
        self._grace_s = grace_s
        self._begin = time.monotonic()
        try:
            with self.log.open("wb") as output:
                output.write(f"{COMMAND_MARK}{shlex.join(spec.command)}\n".encode())
                output.flush()
                self._guard = subprocess.Popen(  # noqa: S603 - the command line is made above
                    [sys.executable, "-I", guard.__file__, str(grace_s), *spec.command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    # No package of the current folder is imported instead of vLLM's or ours.
                    env={**os.environ, "PYTHONSAFEPATH": "1", **spec.environment},
                    start_new_session=True,
                )
        except OSError as error:
            raise ModelError(f"cannot start vLLM: {error}") from None
        assert self._guard.stdout is not None
        first = self._guard.stdout.readline().strip()
        if not first:
            self._guard.wait()
            self._close_pipes()
            raise ModelError(f"cannot start vLLM: {error_line(self.log)}")
        self.group = int(first)

    @property
    def base_url(self) -> str:
        return self.spec.base_url

    @property
    def model_string(self) -> str:
        return f"vllm:{self.spec.name}@{self.base_url}"

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def returncode(self) -> int | None:
        """The exit code, None while vLLM runs; 128 and more for a signal."""
        return self._guard.poll()

    def is_ready(self) -> bool:
        """Whether the server answers on `/health`."""
        try:
            url = f"{self.base_url.removesuffix('/v1')}/health"
            with httpx.Client(trust_env=False, timeout=_PROBE_TIMEOUT_S) as client:
                return client.get(url).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def fault(self) -> str:
        """Why it ended, in one line that quotes vLLM."""
        code = self.returncode() or 0
        how = f"was ended by {_signal_name(code - 128)}" if code > 128 else f"ended with exit code {code}"
        if code == 128 + signal.SIGKILL:
            how += " (out of memory?)"
        return f"vLLM {how}: {error_line(self.log)} (log: {self.log})"

    def wait(self) -> str:
        """Wait until vLLM ends by itself; returns the fault."""
        self._guard.wait()
        return self.fault()

    def stop(self) -> None:
        """End all of vLLM's processes: SIGTERM, and SIGKILL after the grace time. May be called twice.

        An interrupt while it waits kills at once.
        """
        try:
            self._ask_guard()
            self._guard.wait(self._grace_s + 5)
        except KeyboardInterrupt:
            self._ask_guard()
            self._guard.wait(self._grace_s + 5)
            raise
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        finally:
            self._close_pipes()
            if self._guard.returncode < 0:
                # The guard itself was killed, so its processes have to be ended here.
                guard.end_group(self.group)

    def _close_pipes(self) -> None:
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()

    def _ask_guard(self) -> None:
        if self._guard.poll() is None and self._guard.stdin is not None:
            try:
                self._guard.stdin.write(b"x")
                self._guard.stdin.flush()
            except BrokenPipeError:
                return

    def __enter__(self) -> VllmServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_server(
    spec: ServeSpec,
    report: Callable[[str], None],
    *,
    log: Path | None = None,
    every_s: float = REPORT_EVERY_S,
) -> VllmServer:
    """`start_server_async` outside of an event loop."""
    return asyncio.run(start_server_async(spec, report, log=log, every_s=every_s))


async def start_server_async(
    spec: ServeSpec,
    report: Callable[[str], None] = logger.info,
    *,
    log: Path | None = None,
    every_s: float = REPORT_EVERY_S,
    stop: asyncio.Event | None = None,
) -> VllmServer:
    """Start vLLM and wait until it is ready; it is stopped if anything goes wrong or interrupts.

    Args:
        spec: What to start.
        report: Called with a line on the progress of the start.
        log: File for vLLM's output; a temporary one otherwise.
        every_s: Seconds between two reports.
        stop: Ends the wait once it is set.

    Raises:
        ModelError: The port is taken, or vLLM ended; quotes its last error.
        asyncio.CancelledError: `stop` was set; the server is stopped.
    """
    server = VllmServer(spec, log)
    reported = 0.0
    try:
        while not server.is_ready():
            if server.returncode() is not None:
                raise ModelError(server.fault())
            if server.seconds - reported >= every_s:
                reported = server.seconds
                line = last_line(server.log)
                report(f"starting vLLM, {reported:.0f} s" + (f": {line}" if line else ""))
            if stop is not None and stop.is_set():
                raise asyncio.CancelledError
            await asyncio.sleep(_POLL_S)
    except BaseException:
        server.stop()
        raise
    return server


def _new_log() -> Path:
    handle, name = tempfile.mkstemp(prefix="evigraph-vllm-", suffix=".log")
    os.close(handle)
    return Path(name)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def free_port() -> int:
    """A port on loopback that is free right now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(host: str, port: int) -> None:
    """Refuse a port that is taken: vLLM would find out only after it has loaded the weights.

    Raises:
        ModelError: It is taken, or the address is not one of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the server does: connections of an earlier one may not have timed out yet.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"cannot listen on {host}:{port}: {reason}; choose another --port") from None


def last_line(log: Path) -> str:
    """The latest line with words, without its prefix; empty if there is none yet."""
    return next((line for line in reversed(_tail(log)) if not _WORDLESS.match(line)), "")


def error_line(log: Path) -> str:
    """The latest line that names an error, else the latest line."""
    lines = _tail(log)
    for number in reversed(range(len(lines))):
        line = lines[number]
        if _ERROR.match(line) and _POINTER not in line:
            # Pydantic gives the reason only in the line below.
            told_below = _VALIDATION.match(line) and number + 1 < len(lines)
            return (lines[number + 1] if told_below else line)[:_MAX_LINE]
    return last_line(log)[:_MAX_LINE]


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = (_PREFIX.sub("", _COLOUR.sub("", line)).strip() for line in text.splitlines())
    return [line for line in lines if not line.startswith(COMMAND_MARK)]
