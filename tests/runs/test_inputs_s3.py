"""Case files in buckets of S3, on servers that speak its protocol on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from runs.record.folder import CASES, MANIFEST
from storage.copies import PREFIX
from tests.evigraph import COMMAND, ROOT, Ended, write_cases, write_recipe
from tests.object_stores import SECRET, Bucket, served

pytestmark = pytest.mark.scale

COUNT = 3
LARGE = 300_000_000
PEAK = """\
import resource, sys
from storage.copies import fetch
from serving.policy.fetched import input_path
place = input_path(sys.argv[1])
fetch(place)
print(place.stat().st_size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    for name in ("s3fs", "moto"):
        pytest.importorskip(name, reason="needs s3fs and moto[server]")
    with served(tmp_path_factory.mktemp("server")) as bucket:
        yield bucket


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "temporary").mkdir()
    write_recipe(tmp_path)
    write_cases(tmp_path / "cases.jsonl", COUNT)
    return tmp_path


@pytest.fixture
def url(bucket: Bucket, folder: Path) -> str:
    """Of the cases, each test's own."""
    put(bucket, f"{folder.name}/cases.jsonl", (folder / "cases.jsonl").read_bytes())
    return f"s3://night/{folder.name}/cases.jsonl"


def put(bucket: Bucket, name: str, content: bytes) -> None:
    bucket.client.put_object(Bucket="night", Key=name, Body=content)


def environment(bucket: Bucket, folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, **bucket.environment, "TMPDIR": str(folder / "temporary"), "COLUMNS": "200", **more}


def said(bucket: Bucket, folder: Path, *words: str | Path, **more: str) -> Ended:
    """A command; it says neither the key nor where copies lie, and leaves none."""
    given = environment(bucket, folder, PYTHONPATH=str(ROOT), **more)
    ended = subprocess.run(
        [*COMMAND, *map(str, words)], cwd=folder, env=given, capture_output=True, text=True, check=False
    )
    assert not [word for word in (SECRET, PREFIX) if word in ended.stdout + ended.stderr]
    assert list((folder / "temporary").iterdir()) == []
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def run(bucket: Bucket, folder: Path, cases: str, out: str, *words: str, **more: str) -> Ended:
    given = ("--model", "scripted:auto", "--recipe", "lexical.yaml", "--out", out)
    return said(bucket, folder, "run", "tamu", cases, *given, *words, **more)


def test_results_are_those_of_the_same_file_on_a_disk(bucket: Bucket, folder: Path, url: str) -> None:
    assert run(bucket, folder, url, "remote").code == 0
    assert run(bucket, folder, "cases.jsonl", "local").code == 0
    assert run(bucket, folder, url.rpartition("/")[0], "prefix").code == 0
    for name in ("remote", "prefix"):
        assert (folder / name / CASES).read_bytes() == (folder / "local" / CASES).read_bytes()
    text = (folder / "remote" / MANIFEST).read_text()
    assert f'"{url}"' in text and SECRET not in text and PREFIX not in text
    for words in (("resume", "remote"), ("show", "remote", "k1"), ("rerun", "remote", "k1")):
        ended = said(bucket, folder, *words, *(("--from", "generate_answer") * (words[0] == "rerun")))
        assert ended.code == 0, ended
    put(bucket, url.removeprefix("s3://night/"), (folder / "cases.jsonl").read_bytes() + b"\n")
    refused = said(bucket, folder, "resume", "remote")
    assert refused.code == 2 and "changed since this run began: case files" in refused.line


def test_a_run_that_is_killed_leaves_a_copy_that_the_next_process_removes(
    bucket: Bucket, folder: Path, url: str
) -> None:
    (folder / "script.py").write_text("import time\ndef wait(call):\n    time.sleep(600)\n")
    words = ("run", "tamu", url, "--model", "scripted:script.py:wait", "--recipe", "lexical.yaml")
    given = environment(bucket, folder, PYTHONPATH=str(ROOT))
    process = subprocess.Popen([*COMMAND, *words, "--out", "killed"], cwd=folder, env=given)
    end = time.monotonic() + 120
    while not (folder / "killed" / MANIFEST).exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (left,) = (folder / "temporary").iterdir()
    assert [path.name for path in left.rglob("*.jsonl")] == ["cases.jsonl"]
    assert run(bucket, folder, url, "run").code == 0


def test_what_cannot_be_reached_is_one_line(bucket: Bucket, folder: Path, url: str) -> None:
    expected = (
        f"{url.rpartition('/')[0]}/policy.yaml: cannot be looked for as the data policy next to the cases"
    )
    for more, words in (
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "the server does not respond"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": str(folder)}, "no credentials were"),
    ):
        refused = run(bucket, folder, url, "none", **more)
        assert refused.code == 2 and refused.line.startswith(expected) and words in refused.line
    with served(folder, INITIAL_NO_AUTH_ACTION_COUNT="1") as guarded:
        refused = run(guarded, folder, url, "none")
        assert refused.code == 2 and refused.line.startswith(expected)
        assert "access denied" in refused.line and "--policy can name instead" in refused.line
        (folder / "policy.yaml").write_text("name: ours\nhosts: [loopback]\n")
        refused = run(guarded, folder, url, "none", "--policy", "policy.yaml")
        assert refused.code == 2 and refused.line.startswith(f"{url}: access denied")
    for cases, words in (
        (url.replace("cases", "none"), "no such object"),
        ("s3://nothing/cases.jsonl", "bucket not found"),
    ):
        refused = run(bucket, folder, cases, "none")
        assert refused.code == 2 and words in refused.line, refused
    assert not (folder / "none").exists()


@contextmanager
def serving(size: int, sent: int) -> Iterator[str]:
    """A server whose every object `cases.jsonl` has so many bytes, of which it sends so many."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            found = self.path.endswith("/cases.jsonl")
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(size if found else 0))
            self.send_header("ETag", '"one"')
            self.send_header("Last-Modified", "Mon, 23 Nov 2026 10:00:00 GMT")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            if not self.path.partition("?")[0].endswith("/cases.jsonl"):
                return
            for _ in range(sent // 1_000_000):
                self.wfile.write(b"x" * 1_000_000)
            self.wfile.write(b"x" * (sent % 1_000_000))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_large_object_takes_no_more_memory_than_a_small_one(bucket: Bucket, folder: Path, url: str) -> None:
    peaks = []
    for size in (1_000_000, LARGE):
        with serving(size, size) as address:
            given = environment(bucket, folder, AWS_ENDPOINT_URL=address)
            words = [sys.executable, "-c", PEAK, url]
            out = subprocess.run(
                words, cwd=ROOT, env=given, capture_output=True, text=True, check=True
            ).stdout
        found, peak = map(int, out.split())
        assert found == size
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 50_000_000, peaks
    assert list((folder / "temporary").iterdir()) == []
