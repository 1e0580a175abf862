"""A PostgreSQL server of one's own on a free port, for benchmarks and tests: nothing of it is left."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evals.bench.benchmark import BenchError

_WAIT_S = 120.0
_POLL_S = 0.05
_ACCOUNT = "nobody"
"""Who runs it where we are root, as whom it refuses to start."""


class PostgresServer:
    """A server with one user and its password, on loopback."""

    USER = "evigraph"

    def __init__(self, binaries: Path, folder: Path) -> None:
        """Make its data; it does not run yet."""
        self._binaries = binaries
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.password = secrets.token_hex(8)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        secret = folder / "password"
        secret.write_text(self.password)
        if os.geteuid() == 0:
            shutil.chown(folder, _ACCOUNT)
            shutil.chown(secret, _ACCOUNT)
        words = ("--auth=scram-sha-256", f"--username={self.USER}", f"--pwfile={secret}", "--encoding=UTF8")
        made = self._start("initdb", *words, "--no-sync", f"--pgdata={folder / 'data'}")
        _, said = made.communicate()
        if made.returncode:
            raise BenchError(f"initdb ended with code {made.returncode}: {said.decode().strip()}")

    def _start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        account: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam(_ACCOUNT)
            account = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        return subprocess.Popen(  # noqa: S603 - PostgreSQL's programs, our folder
            [self._binaries / program, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            cwd=self._folder,
            **account,
        )

    def start(self) -> None:
        """Start it, and wait until it takes connections.

        Raises:
            BenchError: It does not.
        """
        import psycopg

        settings = (
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self._folder}",
        )
        words = [word for one in (*settings, "max_connections=100") for word in ("-c", one)]
        self._process = self._start("postgres", "-D", str(self._folder / "data"), *words)
        until = time.monotonic() + _WAIT_S
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise BenchError(f"PostgreSQL did not start: {error}") from error
                time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop it at once, as a crash would: nothing is written that is not there yet."""
        if self._process is not None:
            self._process.send_signal(3)
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        """Have all its processes do nothing, while its machine goes on to take what is sent to them."""
        self._signal_all(signal.SIGSTOP)

    def wake(self) -> None:
        """Have them go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        # The first one starts the others, so nothing is missed.
        os.kill(self._process.pid, number)
        for child in self._children():
            os.kill(child, number)

    def _children(self) -> list[int]:
        assert self._process is not None
        pid = self._process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def url(self, database: str, *, password: bool = True) -> str:
        """The address of a database."""
        secret = f":{self.password}" if password else ""
        return f"postgresql://{self.USER}{secret}@127.0.0.1:{self.port}/{database}"

    def create(self) -> str:
        """The name of a new, empty database."""
        name = f"run_{secrets.token_hex(4)}"
        self.query("postgres", f'CREATE DATABASE "{name}"')
        return name

    def query(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def processor_seconds(self) -> float:
        """Of all its processes since it was started, those that have ended among them."""
        assert self._process is not None
        total = sum(_ticks(self._process.pid)[:4])
        total += sum(sum(_ticks(child)[:2]) for child in self._children())
        return total / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> list[int]:
    """User and system time of a process, then those of its ended children."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return [0, 0, 0, 0]
    return [int(field) for field in fields[11:15]]


def find_binaries() -> Path | None:
    """Where PostgreSQL's programs are; None where it is not installed."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: int(one.parts[-3]))
    return found[-1].parent if found else None


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run one.

    Raises:
        BenchError: PostgreSQL is not installed, or does not start.
    """
    binaries = find_binaries()
    if binaries is None:
        raise BenchError("PostgreSQL is not installed; on Debian: apt-get install postgresql")
    # Sockets have short names, and another account has to reach the folder.
    with tempfile.TemporaryDirectory(prefix="evigraph-pg-", dir="/tmp") as folder:
        server = PostgresServer(binaries, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()
