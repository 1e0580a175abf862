"""Runs in the storage of Google and of Azure, and case files there, on their emulators on loopback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from runs.record.folder import CASES, MANIFEST
from serving.policy.object_store import ObjectStore
from tests.evigraph import Ended, evigraph, write_cases, write_recipe
from tests.object_stores import Store, served_by_azure, served_by_google

pytestmark = pytest.mark.scale

COUNT = 3


@pytest.fixture(scope="module", params=["google", "azure"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("server")
    if request.param == "google":
        if find_spec("gcsfs") is None or find_spec("gcp_storage_emulator") is None:
            pytest.skip("needs gcsfs and gcp-storage-emulator")
        with served_by_google(folder) as store:
            yield store
    else:
        if find_spec("adlfs") is None or shutil.which("azurite-blob") is None:
            pytest.skip("needs adlfs and Azurite")
        with served_by_azure(folder) as store:
            yield store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_recipe(tmp_path)
    write_cases(tmp_path / "cases.jsonl", COUNT)
    return tmp_path


def ended(store: Store, folder: Path, *words: str | Path) -> Ended:
    made = evigraph(*words, folder=folder, environment=store.environment)
    # The packages warn about what they cannot find out here.
    assert "falling back" not in made.err
    return made


def run(store: Store, folder: Path, cases: str | Path, out: str) -> Ended:
    given = ("--model", "scripted:auto", "--recipe", "lexical.yaml", "--out", out)
    return ended(store, folder, "run", "tamu", cases, *given)


def test_a_run_is_pushed_and_pulled(store: Store, folder: Path) -> None:
    assert run(store, folder, "cases.jsonl", "run").code == 0
    url = f"{store.url}/{folder.name}/run"
    assert "is now at" in ended(store, folder, "runs", "push", "run", url).out
    assert "is at" in ended(store, folder, "runs", "push", "run", url).out
    assert ended(store, folder, "runs", "pull", url, "--out", "pulled").code == 0
    assert (folder / "pulled" / CASES).read_bytes() == (folder / "run" / CASES).read_bytes()
    assert ended(store, folder, "runs", "pull", f"{url}/none", "--out", "none").code == 2


def test_cases_are_read_by_url(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    url = f"{store.url}/{folder.name}/notes"
    notes = ObjectStore(url, sends=True)
    notes.write("cases.jsonl", (folder / "cases.jsonl").read_bytes())
    notes.write("readme.txt", b"none")
    assert run(store, folder, "cases.jsonl", "local").code == 0
    for cases, out in ((f"{url}/cases.jsonl", "remote"), (url, "prefix")):
        assert run(store, folder, cases, out).code == 0
        assert (folder / out / CASES).read_bytes() == (folder / "local" / CASES).read_bytes()
        assert f'"{cases}"' in (folder / out / MANIFEST).read_text()
    assert ended(store, folder, "resume", "remote").code == 0
    notes.write("cases.jsonl", (folder / "cases.jsonl").read_bytes() + b"\n")
    refused = ended(store, folder, "resume", "remote")
    assert refused.code == 2 and "changed since this run began: case files" in refused.line
    for none in (f"{url}/none.jsonl", f"{url}/none"):
        refused = run(store, folder, none, "none")
        assert refused.code == 2 and refused.line.startswith(f"{none}: no such object")
