"""Runs in a bucket of S3, on a server that speaks its protocol on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runs.move.pushed import LIST
from runs.record.folder import CASES
from serving.policy import gate
from serving.policy.object_store import ObjectStore
from serving.policy.policy import PolicyError
from tests.evigraph import Ended, evigraph, write_cases, write_recipe
from tests.object_stores import SECRET, Bucket, served
from tests.serving.forward_proxy import forward_proxy

pytestmark = pytest.mark.scale

SHARDS = 2


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    for name in ("s3fs", "moto"):
        pytest.importorskip(name, reason="needs s3fs and moto[server]")
    with served(tmp_path_factory.mktemp("server")) as bucket:
        yield bucket


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one machine, and the same in shards."""
    folder = tmp_path_factory.mktemp("made")
    write_recipe(folder)
    write_cases(folder / "cases.jsonl", 4)
    words = ("run", "tamu", "cases.jsonl", "--model", "scripted:auto", "--recipe", "lexical.yaml", "--out")
    assert evigraph(*words, "whole", folder=folder).code == 0
    for index in range(SHARDS):
        shard = ("--shard", f"{index}/{SHARDS}")
        assert evigraph(*words, f"shards/{index}", *shard, folder=folder).code == 0
    return folder


def runs(bucket: Bucket, folder: Path, *words: str | Path, **environment: str) -> Ended:
    """A command of `evigraph runs`; none says the key."""
    ended = evigraph("runs", *words, folder=folder, environment={**bucket.environment, **environment})
    assert SECRET not in ended.out + ended.err
    return ended


def push(bucket: Bucket, folder: Path, run: str, url: str, *more: str, **environment: str) -> Ended:
    return runs(bucket, folder, "push", run, url, *more, **environment)


def pull(bucket: Bucket, folder: Path, url: str, out: Path) -> Ended:
    return runs(bucket, folder, "pull", url, "--out", out)


def test_shards_are_pushed_under_one_prefix_pulled_and_merged(
    bucket: Bucket, folder: Path, tmp_path: Path
) -> None:
    for index in range(SHARDS):
        pushed = push(bucket, folder, f"shards/{index}", f"s3://night/shards/{index}")
        assert pushed.code == 0 and "is now at" in pushed.out and pushed.err == "", pushed
        again = push(bucket, folder, f"shards/{index}", f"s3://night/shards/{index}")
        assert again.code == 0 and "already" in again.out
        assert pull(bucket, folder, f"s3://night/shards/{index}", tmp_path / str(index)).code == 0
    shards = [tmp_path / str(index) for index in range(SHARDS)]
    assert evigraph("merge", *shards, "--out", tmp_path / "run", folder=folder).code == 0
    assert (tmp_path / "run" / CASES).read_bytes() == (folder / "whole" / CASES).read_bytes()
    refused = push(bucket, folder, "shards/0", "s3://night/shards/1")
    assert refused.code == 2
    assert refused.line.startswith("s3://night/shards/1: another run is there, pushed from a folder '1' at")


def test_no_bucket_no_server_and_wrong_keys_are_one_line(
    bucket: Bucket, folder: Path, tmp_path: Path
) -> None:
    refused = push(bucket, folder, "whole", "s3://nothing/run")
    assert (refused.code, refused.line) == (2, f"s3://nothing/run/{LIST}: bucket not found")
    # Nothing listens on this port.
    refused = push(bucket, folder, "whole", "s3://night/run", AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert (refused.code, refused.line) == (2, f"s3://night/run/{LIST}: the server does not respond")
    # The bucket is made without a key, and all else needs one that the server knows.
    with served(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="1") as guarded:
        refused = push(guarded, folder, "whole", "s3://night/run")
    assert refused.code == 2
    assert refused.line.startswith(f"s3://night/run/{LIST}: access denied (InvalidAccessKeyId)")
    none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": str(tmp_path)}
    refused = push(bucket, folder, "whole", "s3://night/run", **none)
    assert refused.code == 2
    assert refused.line.startswith(f"s3://night/run/{LIST}: no credentials were found: set AWS_ACCESS_KEY_ID")


@pytest.mark.parametrize(
    ("environment", "host"),
    [
        ({"AWS_ENDPOINT_URL": "http://minio.example.org:9000"}, "minio.example.org"),
        ({"AWS_ENDPOINT_URL": "", "FSSPEC_S3_ENDPOINT_URL": "https://s3.example.org"}, "s3.example.org"),
        ({"AWS_ENDPOINT_URL": "", "AWS_DEFAULT_REGION": "eu-west-1"}, "night.s3.eu-west-1.amazonaws.com"),
        ({"AWS_ENDPOINT_URL": ""}, "night.s3.amazonaws.com"),
    ],
)
def test_the_gate_is_asked_about_the_host_that_requests_go_to(
    environment: dict[str, str], host: str, bucket: Bucket, folder: Path, tmp_path: Path
) -> None:
    refused = push(bucket, folder, "whole", "s3://night/run", **environment)
    assert refused.code == 2 and f"texts of cases would go to {host}, and no policy" in refused.line
    (tmp_path / "policy.yaml").write_text("name: ours\nhosts: [loopback]\n")
    policy = ("--policy", str(tmp_path / "policy.yaml"))
    refused = push(bucket, folder, "whole", "s3://night/run", *policy, **environment)
    assert refused.code == 2 and f"rule hosts: {host} may see no text" in refused.line
    assert push(bucket, folder, "whole", "s3://night/allowed", *policy).code == 0


def test_a_bucket_is_reached_by_the_proxy_that_the_gate_names(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(bucket.server.rpartition(":")[2])
    for name, value in {**bucket.environment, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)

    def stored() -> bytes | None:
        store = ObjectStore("s3://night/proxied", sends=True)
        store.write("a", b"text")
        return store.read("a", 9)

    with forward_proxy(port) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert stored() == b"text" and proxy.hosts == []
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://gpu01:{port}")
        assert stored() == b"text" and set(proxy.hosts) == {f"gpu01:{port}"}
        monkeypatch.setenv("http_proxy", "http://203.0.113.7:8080")
        gate.release()
        with pytest.raises(PolicyError, match=r"would go to 203\.0\.113\.7"):
            stored()
