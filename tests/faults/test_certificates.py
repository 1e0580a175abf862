"""A certificate that nobody vouches for: at the start nothing begins; later the run ends and says why."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.faults.bench import Bench
from tests.faults.conftest import StartServer
from tests.faults.faulty_server import Exchange, Fault


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    path, key = folder / f"{name}.pem", folder / f"{name}.key"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    openssl = shutil.which("openssl")
    assert openssl, "openssl makes the certificates"
    subprocess.run(
        [openssl, "req", *kind, *subject, "-out", str(path), "-keyout", str(key)],
        check=True,
        capture_output=True,
    )
    return path, key


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path, "first"))
    return context


def test_unknown_certificate_at_the_start(
    bench: Bench, start_server: StartServer, tls: ssl.SSLContext
) -> None:
    server = start_server(tls=tls)
    ended = bench.do("run", server.model)
    assert (ended.code, ended.out) == (2, "")
    assert server.url in ended.line
    assert "CERTIFICATE_VERIFY_FAILED" in ended.line
    assert "SSL_CERT_FILE" in ended.line
    assert not (bench.folder / "out").exists()


def test_certificate_that_changes_in_the_middle(
    bench: Bench, start_server: StartServer, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    second = certificate(tmp_path, "second")

    async def swap(exchange: Exchange) -> None:
        tls.load_cert_chain(*second)
        exchange.server.cut()

    bench.environment = {"SSL_CERT_FILE": str(tmp_path / "first.pem")}
    server = start_server(tls=tls, fault=Fault(swap), after=40, times=1)
    ended = bench.do("run", server.model)
    bench.check_summary(ended)
    bench.check_calls(server)
    assert set(ended.summary["errors"]) == {"connection"}
    messages = bench.messages()
    assert all(server.url in message and "CERTIFICATE_VERIFY_FAILED" in message for message in messages), (
        messages
    )
    tls.load_cert_chain(tmp_path / "first.pem", tmp_path / "first.key")
    bench.check_all_done(bench.do("retry", server.model), server)
