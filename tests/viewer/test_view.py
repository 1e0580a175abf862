"""`evigraph view` as a command."""

from __future__ import annotations

import errno
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from access.users import Users
from cli.looking.view import _resume_command, _roots
from runs.record.audit import read_audit
from runs.record.manifest import RunError
from serving.protocol.addresses import is_loopback
from storage.errors import InputError
from tests.evigraph import COMMAND, evigraph
from viewer.listening import Certificate, PortTaken, forget, has_display, link, listen, open_page

ANY = "0.0.0.0"  # noqa: S104 - of a test


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nowhere: no run here or below$"):
        _roots([tmp_path / "nowhere"])


def test_reviewed_cases_are_resumed_by_a_program_of_ours() -> None:
    program, *words = _resume_command(Path("a run"))
    assert (program, words[-3:]) == (sys.executable, ["resume", "a run", "--reviewed"])
    assert words[:-3] == ["-P", *COMMAND[1:]], "the folder of the user holds none of our modules"


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} of 127.0.0.1 is in use; choose another"):
            listen("127.0.0.1", port)


def test_a_port_that_needs_rights_is_named_and_other_faults_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="assign requested address"):
        listen("192.0.2.1", 0)

    def refused(self: socket.socket, backlog: int) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("viewer.listening._Listener.listen", refused, raising=False)
    with pytest.raises(PortTaken, match=r"port 0 of 127\.0\.0\.1 needs more rights; choose one above 1023"):
        listen("127.0.0.1", 0)


def test_more_connections_than_descriptors_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen("127.0.0.1", 0) as bound:
        for few, taken in ((10_000, True), (0, False)):
            monkeypatch.setattr("viewer.listening.FEWEST_CONNECTIONS", few)
            monkeypatch.setattr("viewer.listening.descriptors", lambda: 0)
            with socket.create_connection(bound.getsockname()) as caller:
                if taken:
                    bound.accept()[0].close()
                else:
                    with pytest.raises(ConnectionAbortedError):
                        bound.accept()
                assert caller.recv(1) == b""


@pytest.mark.parametrize("found", [True, False])
def test_a_browser_gets_the_key_from_a_file_that_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shown: list[str] = []

    def browse(address: str) -> bool:
        page = Path(address.removeprefix("file://"))
        shown.append(page.read_text())
        assert page.parent.stat().st_mode & 0o777 == 0o700
        return found

    monkeypatch.setattr("webbrowser.open", browse)
    folder = open_page('http://127.0.0.1:1/?token=k&"')
    assert 'content="0; url=http://127.0.0.1:1/?token=k&amp;&quot;"' in shown[0]
    assert (folder is not None) == found == any(tmp_path.iterdir())
    forget(folder)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("platform", "variable", "shown"),
    [
        ("linux", "DISPLAY", True),
        ("linux", "WAYLAND_DISPLAY", True),
        ("linux", "OTHER", False),
        ("darwin", "OTHER", True),
        ("win32", "OTHER", True),
    ],
)
def test_where_a_browser_can_open(
    monkeypatch: pytest.MonkeyPatch, platform: str, variable: str, shown: bool
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv(variable, ":0")
    assert has_display() is shown


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


def certificate(folder: Path) -> tuple[Path, Path]:
    """Of this machine, signed by itself."""
    chain, key = folder / "cert.pem", folder / "key.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    extension = ("-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(
        [*words.split(), *extension, "-out", chain, "-keyout", key], check=True, capture_output=True
    )
    return chain, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on the PATH")
def test_users_sign_in_over_tls_and_the_link_has_no_key(folder: Path, tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    users = Users(tmp_path / "users.json")
    _, token = users.add("ana", "view", datetime.now(UTC))
    run = shutil.copytree(folder / "again", tmp_path / "run")
    command = [*COMMAND, "view", str(run), "--port", "0", "--no-browser", "--host", ANY]
    process = subprocess.Popen(
        [*command, "--users", users.path, "--tls", chain, key],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().split()[-1]
    assert address.startswith("https://127.0.0.1:") and address.endswith("/")
    context = ssl.create_default_context(cafile=chain)
    with httpx.Client(follow_redirects=True, verify=context, base_url=address) as client:
        assert client.get("/").status_code == 401
        sent = client.post("/sign-in", data={"token": token}, headers={"origin": address.rstrip("/")})
        assert sent.status_code == 200 and "<strong" in sent.text and "ana" in sent.text
        assert [cookie.secure for cookie in client.cookies.jar] == [True]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "users who sign in can now read case texts over the network, encrypted" in " ".join(errors.split())
    events = [((line.fields or {})["event"], (line.fields or {}).get("because")) for line in read_audit(run)]
    assert events == [("signed_in", None), ("signed_out", "the server has ended")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--users", "none.json"),
            "nobody may sign in. evigraph users add NAME --role admin --users none.json",
        ),
        (("--tls", "none.pem", "key.pem"), "none.pem: cannot be used with key.pem: No such file"),
        (("--users", "none.json", "--by", "ana", "--blind"), "--by is for one person"),
        (("--users", "none.json", "--bundle", "pages"), "nobody signs in to files"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(
    folder: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    refused = evigraph("view", folder / "again", "--no-browser", *options, folder=tmp_path)
    assert refused.code == 2 and words in " ".join(refused.err.split()).replace("│ ", "")


def test_a_certificate_of_another_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    with pytest.raises(InputError, match=r"cert\.pem: cannot be used with"):
        Certificate.checked(tmp_path / "cert.pem", tmp_path / "cert.pem")
