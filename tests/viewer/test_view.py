"""`evigraph view` as a command."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from cli.view import _roots
from runs.manifest import RunError
from serving.policy import is_loopback
from tests.evigraph import COMMAND
from viewer.listening import PortTaken, link, listen

ANY = "0.0.0.0"  # noqa: S104 - of a test


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nowhere: no run here or below$"):
        _roots([tmp_path / "nowhere"])


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} of 127.0.0.1 is in use; choose another"):
            listen("127.0.0.1", port)


def test_the_usual_port_gives_way_to_a_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr("viewer.listening.DEFAULT_PORT", taken.getsockname()[1])
        with listen("127.0.0.1", None) as bound:
            assert bound.getsockname()[1] != taken.getsockname()[1]


def test_the_command_serves_all_runs_and_an_interrupt_ends_it_as_a_success(folder: Path) -> None:
    command = [*COMMAND, "view", folder.name, "--port", "0", "--no-browser", "--host", ANY]
    process = subprocess.Popen(
        command, cwd=folder.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("5 runs: http://127.0.0.1:")
    with httpx.Client(follow_redirects=True) as client:
        assert "plain" in client.get(line.split()[-1]).text
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "can now read case texts over the network" in " ".join(errors.split())
    assert "Traceback" not in errors
    assert not out


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("::1", True),
        (ANY, False),
        ("pc", False),
    ],
)
def test_what_counts_as_this_machine_alone(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("host", "address"), [(ANY, "127.0.0.1"), ("::1", "[::1]"), ("localhost", "localhost")]
)
def test_the_link_can_be_opened(host: str, address: str) -> None:
    assert link(host, 80, "a&b") == f"http://{address}:80/?token=a%26b"
