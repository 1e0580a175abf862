"""Servers of object storage on loopback: moto for S3, and the emulators of Google's and Azure's."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

PATIENCE_S = 120.0
SECRET = "a-key-that-is-not-shown"  # noqa: S105
# The account and the key that every Azurite has.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Bucket(NamedTuple):
    """A bucket `night` on a separate server."""

    server: str

    @property
    def environment(self) -> dict[str, str]:
        """With which commands reach it."""
        keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET}
        return {**keys, "AWS_ENDPOINT_URL": self.server, "AWS_EC2_METADATA_DISABLED": "true"}

    def names(self, prefix: str) -> list[str]:
        """Of the objects below a prefix."""
        listed = httpx.get(f"{self.server}/night", params={"prefix": f"{prefix}/"}, trust_env=False).text
        return [part.partition("</Key>")[0] for part in listed.split("<Key>")[1:]]

    def change(self, name: str) -> None:
        """Change a byte of an object."""
        content = httpx.get(f"{self.server}/night/{name}", trust_env=False).content
        self.client.put_object(Bucket="night", Key=name, Body=b"x" + content[1:])

    def remove(self, name: str) -> None:
        self.client.delete_object(Bucket="night", Key=name)

    @property
    def client(self) -> Any:
        """For what needs a key; moto brings its package."""
        from boto3 import client

        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        return client("s3", endpoint_url=self.server, region_name="us-east-1", **keys)


@contextmanager
def served(folder: Path, **environment: str) -> Iterator[Bucket]:
    """moto's server on a free port, with the bucket."""
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _running(command, folder, port, environment):
        bucket = Bucket(f"http://127.0.0.1:{port}")
        httpx.put(f"{bucket.server}/night", timeout=PATIENCE_S, trust_env=False).raise_for_status()
        yield bucket


class Store(NamedTuple):
    """A store of another kind, with a bucket `night`.

    Attributes:
        url: Of the bucket.
        environment: With which commands reach it.
    """

    url: str
    environment: dict[str, str]


@contextmanager
def served_by_google(folder: Path) -> Iterator[Store]:
    """The emulator of Google Cloud Storage, which keeps all in memory."""
    port = _free_port()
    started = ["start", "--host=127.0.0.1", f"--port={port}", "--in-memory", "--default-bucket=night"]
    with _running([sys.executable, "-m", "gcp_storage_emulator", *started], folder, port, {}):
        yield Store("gs://night", {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"})


@contextmanager
def served_by_azure(folder: Path) -> Iterator[Store]:
    """Azurite, which keeps all in a folder."""
    port, program = _free_port(), shutil.which("azurite-blob")
    assert program is not None
    # The client may speak a later version than the emulator knows.
    started = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--skipApiVersionCheck"]
    address = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    account = f"AccountName={_ACCOUNT};AccountKey={_KEY};BlobEndpoint={address}"
    connection = f"DefaultEndpointsProtocol=http;{account}"
    with _running([program, "--silent", "--location", str(folder), *started], folder, port, {}):
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(connection) as client:
            client.create_container("night")
        yield Store("abfs://night", {"AZURE_STORAGE_CONNECTION_STRING": connection})


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _running(command: Sequence[str], folder: Path, port: int, environment: dict[str, str]) -> Iterator[None]:
    """A server until the end, once it takes connections."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
    try:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end and process.poll() is None, "the server does not start"
                time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()
