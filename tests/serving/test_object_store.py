from __future__ import annotations

import errno
import os
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import pytest

from serving.policy import gate, object_store
from serving.policy.object_store import FullDiskError, ObjectStore, StorageError
from serving.policy.policy import PolicyError
from serving.protocol.errors import ModelError

pytest.importorskip("fsspec", reason="needs the extra storage")


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_CLOUD_UNIVERSE_DOMAIN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ACCOUNT_NAME", "CONNECTION_STRING"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("s3://ann:secret@bucket/run", "holds no user and no password"),
        ("gs://bucket/run?key=secret", "ends before any ?"),
        ("abfs://ann:secret@account.dfs.core.windows.net/run", "holds no user and no password"),
        ("abfs://box@ann:secret@account.dfs.core.windows.net/run", "holds no user and no password"),
        ("hdfs://host/run", "no URL of object storage; write s3://BUCKET/PREFIX"),
        ("out/run", "no URL of object storage"),
        ("s3:///run", "names no bucket"),
        ("s3://[bucket/run", "names no bucket"),
        ("file://host/run", "names a host"),
        ("abfs://box/run", "set AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_what_is_no_url_of_storage_or_holds_a_secret_is_refused(url: str, fault: str) -> None:
    with pytest.raises(ModelError, match=r".") as refused:
        ObjectStore(url, sends=True)
    assert fault in str(refused.value) and "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "environment", "host"),
    [
        ("gs://bucket/run", {}, "storage.googleapis.com"),
        ("gcs://bucket/run", {"STORAGE_EMULATOR_HOST": "http://gcs.example.org:4443"}, "gcs.example.org"),
        ("abfs://box@ours.dfs.core.windows.net/run", {}, "ours.blob.core.windows.net"),
        ("az://box/run", {"AZURE_STORAGE_ACCOUNT_NAME": "ours"}, "ours.blob.core.windows.net"),
        (
            "az://box/run",
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=a;BlobEndpoint=https://b.example.org/a"},
            "b.example.org",
        ),
        (
            "az://box/run",
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=ours;EndpointSuffix=core.example.org"},
            "ours.blob.core.example.org",
        ),
    ],
)
def test_the_gate_is_asked_about_the_host_that_the_environment_leads_to(
    url: str, environment: dict[str, str], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PolicyError, match=f"would go to {host}, and no policy"):
        ObjectStore(url, sends=True)


def test_a_fetch_needs_no_word_of_the_user_but_keeps_to_a_policy(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("name: ours\nhosts: [loopback]\n")
    with pytest.raises(StorageError, match="gs:// needs gcsfs: pip install fsspec gcsfs"):
        ObjectStore("gs://bucket/run", sends=False)
    gate.choose(str(tmp_path / "policy.yaml"), allow_hosted=False)
    with pytest.raises(PolicyError, match=r"rule hosts: storage\.googleapis\.com"):
        ObjectStore("gs://bucket/run", sends=False)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> ModuleSpec | None:
        return None if name in ("s3fs", "gcsfs") else find_spec(name)

    monkeypatch.setattr(object_store, "find_spec", without)
    with pytest.raises(StorageError, match=r"s3:// needs s3fs: pip install -e '\.\[storage\]' in the clone"):
        ObjectStore("s3://bucket/run", sends=True)
    gate.choose(None, allow_hosted=True)
    with pytest.raises(StorageError, match="gs:// needs gcsfs"):
        ObjectStore("gs://bucket/run", sends=True)


def of_s3(error: Exception, code: str) -> Exception:
    """An error with the reply of a server."""
    error.__cause__ = RuntimeError(code)
    vars(error.__cause__)["response"] = {"Error": {"Code": code}}
    return error


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (of_s3(FileNotFoundError("x"), "NoSuchBucket"), "bucket not found"),
        (
            type("NoCredentialsError", (Exception,), {})("x"),
            "no credentials were found: set AWS_ACCESS_KEY_ID",
        ),
        (type("ConnectTimeoutError", (Exception,), {})("x"), "the server does not respond"),
        (of_s3(PermissionError("x"), "AccessDenied"), "access denied (AccessDenied): check the credentials"),
        (PermissionError("x"), "access denied: check the credentials"),
        (FileNotFoundError("x"), "is not there"),
    ],
)
def test_a_fault_of_storage_is_one_line(error: Exception, shown: str) -> None:
    assert str(object_store._failure("s3://b/o", error)).startswith(f"s3://b/o: {shown}")


def test_what_a_policy_forbids_within_a_client_is_told_as_that() -> None:
    forbidden, outer = PolicyError("rule hosts: b.example.org"), OSError("cannot connect")
    outer.__context__ = forbidden
    assert object_store._failure("s3://b/o", outer) is forbidden
    # As botocore keeps the error of a connection.
    kept = OSError("cannot connect")
    vars(kept)["kwargs"] = {"error": forbidden}
    assert object_store._failure("s3://b/o", kept) is forbidden


def test_a_folder_that_is_mounted_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    store = ObjectStore(f"file://{tmp_path}", sends=True)
    store.write("a.json", b"four")
    assert (store.read("a.json", 4), store.size("a.json"), store.read("gone", 4)) == (b"four", 4, None)
    with pytest.raises(StorageError, match=r"/a\.json: has more than 3 bytes"):
        store.read("a.json", 3)
    assert (store.look("folder"), store.look("gone"), store.names()) == (None, None, ["a.json"])
    assert store.get("a.json", tmp_path / "copy") and not store.get("gone", tmp_path / "other")
    with pytest.raises(StorageError, match=r"/folder: "):
        store.read("folder", 3)


def test_a_disk_that_is_full_is_not_a_fault_of_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text("four")
    store = ObjectStore(f"file://{tmp_path}", sends=True)
    for number, kind, words in (
        (errno.ENOSPC, FullDiskError, "cannot be written to this disk: No space left"),
        (errno.EIO, StorageError, "Input/output error"),
    ):

        def fail(*_: object, number: int = number, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(type(store._files), "get_file", fail)
        with pytest.raises(ModelError, match=words) as failed:
            store.get("a.json", tmp_path / "copy")
        assert type(failed.value) is kind


def test_what_is_shown_of_a_fault_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    shown = str(
        object_store._failure("s3://b/o", OSError("header very-secret of https://b/o?sig=abc is bad"))
    )
    assert shown == "s3://b/o: OSError: header *** of https://b/o?*** is bad"
