"""Runs whose case and key files are named by URL; here object storage is a folder."""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from cases import samples
from cli.main import app
from runs.record.folder import CASES, MANIFEST
from serving.policy import fetched, gate
from serving.policy.object_store import ObjectStore, Stored
from storage.copies import PREFIX, remove_copies
from tests.evigraph import COMMAND, ROOT, write_cases, write_recipe
from tests.evigraph import said as said_by

pytestmark = pytest.mark.slow

pytest.importorskip("fsspec", reason="needs the extra storage")

SAMPLES = Path(samples.__path__[0])
COUNT, ALL = 3, 28
POLICY = "name: ours\nhosts: [loopback]\n"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where copies lie."""
    remove_copies()
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    remove_copies()


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    notes = tmp_path / "bucket" / "notes"
    notes.mkdir(parents=True)
    for name in ("pool.xml", "pool_key.json"):
        shutil.copy(SAMPLES / name, notes / name)
    return notes


@pytest.fixture
def made(tmp_path: Path, bucket: Path) -> Path:
    """A run of all notes by URL."""
    run(tmp_path, f"{url(bucket)}/pool.xml", limit=())
    return tmp_path / "run"


def url(place: Path) -> str:
    return f"file://{place}"


def said(*arguments: str | Path) -> str:
    """What a process says that has fetched nothing; it never says where copies lie."""
    remove_copies()
    line = said_by(*arguments)
    assert PREFIX not in line
    return line


def run(
    folder: Path,
    *cases: str | Path,
    out: str = "run",
    more: tuple[str, ...] = (),
    limit: tuple[str, ...] = ("--limit", str(COUNT)),
) -> str:
    write_recipe(folder)
    given = ("--model", "scripted:auto", "--recipe", str(folder / "lexical.yaml"), *limit)
    return said("run", "tamu", *cases, *given, "--out", folder / out, *more)


def record(run: Path) -> dict[str, Any]:
    text = (run / MANIFEST).read_text()
    assert PREFIX not in text
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("name", ["pool.xml", "cases.jsonl", ""])
def test_results_are_those_of_the_same_files_on_a_disk(
    name: str, tmp_path: Path, bucket: Path, temporary: Path
) -> None:
    write_cases(bucket / "cases.jsonl", COUNT)
    (bucket / ".hidden.xml").write_text("none")
    (bucket / "deeper").mkdir()
    (bucket / "deeper" / "cases.xml").write_text("none")
    by_url = f"{url(bucket)}/{name}"
    key = ("--key", f"{url(bucket)}/pool_key.json") if name == "pool.xml" else ()
    assert f"{COUNT} done" in run(tmp_path, by_url, out="remote", more=key)
    (copies,) = temporary.iterdir()
    assert (copies.stat().st_mode & 0o777, list(copies.rglob("*.part"))) == (0o700, [])
    run(tmp_path, bucket / name, out="local")
    assert (tmp_path / "remote" / CASES).read_bytes() == (tmp_path / "local" / CASES).read_bytes()
    remote, local = record(tmp_path / "remote")["inputs"], record(tmp_path / "local")["inputs"]
    assert remote["sha256"] == local["sha256"]
    assert (remote["paths"], remote["keys"]) == ([by_url.rstrip("/")], [*key[1:]])


def test_every_command_that_reads_the_input_again_takes_the_url(
    made: Path, tmp_path: Path, bucket: Path
) -> None:
    cases = f"{url(bucket)}/pool.xml"
    assert f"against the key of {ALL} cases" in said("show", made)
    for words, found in (
        (("resume", made), f"{ALL} done"),
        (("retry", made), f"{ALL} done"),
        (("score", made), "strict"),
        (("show", made, "1"), "case"),
        (("compare", made, made), ""),
        (("rerun", made, "1", "--from", "generate_answer"), ""),
        (("verify", made), ""),
        (("export", made, "--out", tmp_path / "frames"), ""),
        (("card", made), cases),
        (("check", made), f"whole: {ALL} ended cases"),
        (("analyse", made), "threshold"),
        (("submit", made, "--task", "2026-2", "--out", tmp_path / "2.zip"), f"--cases {cases}"),
        (("validate", tmp_path / "2.zip", "--task", "2026-2", "--cases", cases), ""),
        (("score", tmp_path / "2.zip", "--task", "2026-2", "--cases", cases), ""),
        (("calibrate", cases, "--ranker", "bm25"), cases),
        (("demos", "build", cases, "--to", tmp_path / "pool", "--embedding", "lexical:64"), "demonstrations"),
        (("run", "tamu", cases, "--dry-run", "--recipe", tmp_path / "lexical.yaml"), ""),
        (("view", made, "--bundle", tmp_path / "pages"), ""),
        (("purge", made, "--yes"), cases),
    ):
        line = said(*words)
        assert found in line and "no such" not in line, (words, line)
    written = [*(tmp_path / "pages").rglob("*.html"), *(tmp_path / "frames").rglob("*.csv")]
    assert written and not [one for one in written if PREFIX in one.read_text()]


def test_shards_by_url_are_merged_by_url(tmp_path: Path, bucket: Path) -> None:
    for index in range(2):
        run(tmp_path, f"{url(bucket)}/pool.xml", out=f"shards/{index}", more=("--shard", f"{index}/2"))
    run(tmp_path, f"{url(bucket)}/pool.xml", out="whole")
    said("merge", *(tmp_path / "shards" / str(index) for index in range(2)), "--out", tmp_path / "merged")
    assert (tmp_path / "merged" / CASES).read_bytes() == (tmp_path / "whole" / CASES).read_bytes()
    assert record(tmp_path / "merged")["inputs"]["paths"] == [f"{url(bucket)}/pool.xml"]


@pytest.mark.parametrize("name", ["pool.xml", "pool_key.json"])
def test_an_object_that_has_changed_is_refused_like_a_file(name: str, made: Path, bucket: Path) -> None:
    (bucket / name).write_bytes((bucket / name).read_bytes() + b"\n")
    refused = said("resume", made)
    assert refused.startswith(
        f"{made}: changed since this run began: case files. Undo the change, or run the"
    )
    assert f"{ALL} done" in said("retry", made, "--corrected") and f"{ALL} done" in said("resume", made)
    assert record(made)["inputs"]["paths"] == [f"{url(bucket)}/pool.xml"]


def test_a_policy_beside_the_object_binds(tmp_path: Path, bucket: Path) -> None:
    (bucket / "policy.yaml").write_text(POLICY)
    cases = f"{url(bucket)}/pool.xml"
    hosted = ("run", "tamu", cases, "--model", "openai:gpt-x", "--allow-hosted")
    assert said(*hosted).startswith(f"policy 'ours' ({url(bucket)}/policy.yaml), rule hosts: api.openai.com")
    gate.release()
    assert "rule hosts" in said(*hosted[:2], url(bucket), *hosted[3:])
    gate.release()
    run(tmp_path, cases)
    (held,) = record(tmp_path / "run")["policies"]
    assert held["origin"] == f"{url(bucket)}/policy.yaml"
    (bucket / "policy.yaml").rename(bucket / "policy.yml")
    gate.release()
    assert said(*hosted).startswith(f"{url(bucket)}/policy.yml: a policy is called policy.yaml")
    # One that the user names takes its place, and nothing is looked for.
    (tmp_path / "other.yaml").write_text(POLICY.replace("ours", "other"))
    assert "policy 'other'" in said(*hosted[:-1], "--policy", tmp_path / "other.yaml")


def test_a_scan_counts_for_the_object_and_is_asked_for_by_its_url(tmp_path: Path, bucket: Path) -> None:
    (bucket / "policy.yaml").write_text("name: ours\nhosts: [api.openai.com]\nscan_before_hosted: true\n")
    cases = f"{url(bucket)}/pool.xml"
    refused = said("run", "tamu", cases, "--model", "openai:gpt-x", "--allow-hosted")
    assert refused.endswith(shlex.join(["evigraph", "scan", cases])) and f"{cases} and 1 more" in refused


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ("BUCKET/none.xml", "BUCKET/none.xml: no such object. Check the URL"),
        ("BUCKET/none", "BUCKET/none: no such object, and nothing below it. Check the URL"),
        ("BUCKET/notes.txt", "BUCKET/notes.txt: no such object, and nothing below it"),
        ("BUCKET/empty", "BUCKET/empty: no .xml, .jsonl, or .json of questions in this folder"),
        ("BUCKET/../pool.xml", "BUCKET/../pool.xml: has an empty part, or one of . or .."),
        ("http://host/pool.xml", "'http://host/pool.xml': no URL of object storage; write s3://"),
        ("s3://AKIA:secret-word@bucket/pool.xml", "s3://"),
        ("file://host/pool.xml", "'file://host/pool.xml': it names a host"),
    ],
)
def test_a_url_that_cannot_be_read_is_one_line(
    cases: str, words: str, tmp_path: Path, bucket: Path, temporary: Path
) -> None:
    (bucket / "empty").mkdir()
    (bucket / "empty" / "notes.txt").touch()
    refused = run(tmp_path, cases.replace("BUCKET", url(bucket)))
    assert words.replace("BUCKET", url(bucket)) in refused and "secret-word" not in refused
    assert not (tmp_path / "run").exists()
    assert not [one for one in temporary.rglob("*") if one.is_file() and one.name != ".lock"]


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(name: str) -> ModuleSpec | None:
        return None if name == "fsspec" else find_spec(name)

    monkeypatch.setattr("serving.policy.object_store.find_spec", found)
    fetched._opened.cache_clear()
    assert said("scan", f"{url(bucket)}/pool.xml") == (
        f"{url(bucket)}/pool.xml: file:// needs fsspec: pip install -e '.[storage]' in the clone"
    )


def test_an_object_that_is_cut_or_changes_is_no_input(
    tmp_path: Path, bucket: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, look = ObjectStore.get, ObjectStore.look
    cases, size = f"{url(bucket)}/pool.xml", (bucket / "pool.xml").stat().st_size

    def cut(self: ObjectStore, name: str, target: Path, *more: Any) -> bool:
        found = get(self, name, target, *more)
        os.truncate(target, size - 1)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "get", cut)
        whole = f"{size - 1:,} of {size:,} bytes came"
        assert said("scan", cases) == f"{cases}: was cut off: {whole}; begin again"
    asked: list[str] = []

    def changing(self: ObjectStore, name: str) -> Stored | None:
        asked.append(name)
        found = look(self, name)
        return found and found._replace(mark=str(len(asked)))

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "look", changing)
        assert said("scan", cases) == f"{cases}: was changed while it was fetched; begin again"
    assert not list(temporary.rglob("*pool*"))


def test_a_disk_without_room_is_named(
    tmp_path: Path, bucket: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases, size = f"{url(bucket)}/pool.xml", (bucket / "pool.xml").stat().st_size
    remedy = "Set TMPDIR to a folder with more room"
    with monkeypatch.context() as patched:
        patched.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
        assert said("scan", cases) == f"{cases}: has {size:,} bytes, and there is room for 10. {remedy}"
    ended = subprocess.run(
        [*COMMAND, "scan", cases],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert f"evigraph: {cases}: cannot be written to this disk: File too large. {remedy}" in ended.stderr
    assert [one for one in temporary.rglob("*pool*")] == []


def test_what_is_said_about_a_case_names_the_url(tmp_path: Path, bucket: Path) -> None:
    (bucket / "cases.jsonl").write_text('{"case_id": "a"}\n{"no": "case"}\n')
    remove_copies()
    given = ("--model", "scripted:auto", "--out", str(tmp_path / "run"), "--limit", "3", "--recipe", "demo")
    cases = (f"{url(bucket)}/cases.jsonl", f"{url(bucket)}/pool.xml")
    ended = CliRunner().invoke(app, ["run", "tamu", *cases, *given, "--set", "embedding=lexical:64"])
    assert ended.exit_code == 1 and PREFIX not in ended.output
    text = (tmp_path / "run" / CASES).read_text()
    assert f"{url(bucket)}/cases.jsonl" in text and PREFIX not in text


def test_a_long_fetch_is_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(fetched, "_FIRST_LINE_S", 0.0)
    steps = fetched._Steps("s3://bucket/cases.jsonl", 3_000_000_000)
    fetched._log.addHandler(caplog.handler)
    try:
        with caplog.at_level("INFO", fetched._log.name):
            for done in (120_000_000, 130_000_000):
                steps.show(done)
    finally:
        fetched._log.removeHandler(caplog.handler)
    assert {one.getMessage() for one in caplog.records} == {
        "fetching s3://bucket/cases.jsonl: 120 of 3,000 MB"
    }


def test_places_that_take_no_url_say_so() -> None:
    for words in (("train", "logistic", "--data"), ("experiment", "objectives", "--data")):
        line = said(*words, "s3://bucket/data")
        assert line == "s3://bucket/data: is a URL. Name a file or folder of this machine"


def test_an_experiment_may_name_urls(tmp_path: Path, bucket: Path) -> None:
    write_recipe(tmp_path)
    cases = f"{url(bucket)}/pool.xml"
    (tmp_path / "grid.yaml").write_text(
        f"recipe: lexical.yaml\ncases: {cases}\nmodel: scripted:auto\ncells: {{one: {{}}}}\n"
    )
    said("experiment", tmp_path / "grid.yaml", "--out", tmp_path / "grid", "--limit", "2")
    assert record(tmp_path / "grid" / "cells" / "one")["inputs"]["paths"] == [cases]
