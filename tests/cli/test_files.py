"""Who may read what commands write, what a kill leaves behind, and where nothing is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runs.record.folder import CASES
from storage.private import _unnamed, write_private
from tests.evigraph import evigraph, write_cases, write_recipe

SAMPLES = Path(__file__).parents[2] / "cases" / "samples"
OTHERS = 0o077


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """What most systems begin with; commands inherit it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    start(tmp_path)
    return tmp_path / "run"


def start(folder: Path, **environment: str) -> None:
    write_cases(folder / "cases.jsonl", 2)
    arguments = ("run", "tamu", "cases.jsonl", "--model", "scripted:auto", "--out", "run")
    given = {"EVIGRAPH_FILES": "", **environment}
    made = evigraph(*arguments, "--recipe", write_recipe(folder), folder=folder, environment=given)
    assert made.code == 0, made.err


def open_to_others(folder: Path, mask: int = OTHERS) -> list[str]:
    """Files and folders that others may use, the folder itself too."""
    found = [folder, *folder.rglob("*")]
    return [f"{one.name} {one.stat().st_mode & 0o777:o}" for one in found if one.stat().st_mode & mask]


def test_a_run_and_all_that_is_made_of_it_is_for_its_owner_alone(run: Path, tmp_path: Path) -> None:
    for arguments in (
        ("rerun", run, "k0", "--from", "generate_answer"),
        ("review", run, "k0", "--by", "Ann", "--confirm"),
        ("review", run, "--export", "gold.jsonl"),
        ("export", run, "--out", run / "frames"),
        ("show", run),
    ):
        ended = evigraph(*arguments, folder=tmp_path, environment={"EVIGRAPH_FILES": ""})
        assert ended.code == 0, ended.err
    assert (run / "forks" / "1" / CASES).exists() and (run / "index.sqlite").exists()
    assert open_to_others(run) == []
    assert open_to_others(tmp_path / "gold.jsonl") == []


def test_a_pool_is_for_its_owner_alone(tmp_path: Path) -> None:
    arguments = ("demos", "build", SAMPLES / "pool.xml", "--to", "pool", "--embedding", "lexical:64")
    made = evigraph(*arguments, folder=tmp_path, environment={"EVIGRAPH_FILES": ""})
    assert made.code == 0, made.err
    assert open_to_others(tmp_path / "pool") == []


def test_a_folder_that_is_there_already_is_closed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o755)
    start(tmp_path)
    assert open_to_others(tmp_path / "run") == []


def test_a_run_of_an_earlier_version_is_closed_when_it_goes_on(run: Path, tmp_path: Path) -> None:
    for one in (run, *run.iterdir()):
        one.chmod(0o755 if one.is_dir() else 0o644)
    assert evigraph("resume", run, folder=tmp_path, environment={"EVIGRAPH_FILES": ""}).code == 0
    assert open_to_others(run) == []


def test_a_group_may_be_let_in(tmp_path: Path) -> None:
    start(tmp_path, EVIGRAPH_FILES="group")
    assert open_to_others(tmp_path / "run", 0o007) == []
    assert (tmp_path / "run" / CASES).stat().st_mode & 0o777 == 0o660


def test_the_system_may_decide(tmp_path: Path) -> None:
    start(tmp_path, EVIGRAPH_FILES="umask")
    assert (tmp_path / "run" / CASES).stat().st_mode & 0o777 == 0o644


def test_another_value_is_refused(tmp_path: Path) -> None:
    ended = evigraph("show", "run", folder=tmp_path, environment={"EVIGRAPH_FILES": "all"})
    assert ended.code == 2
    assert ended.line == "EVIGRAPH_FILES: no value 'all'. Values are: owner, group, umask"


KILLED = """
import os, signal, sys
from pathlib import Path
from storage.files import write_atomically

def chunks():
    yield b"a patient's note"
    os.kill(os.getpid(), signal.SIGKILL)

write_atomically(Path(sys.argv[1]), chunks())
"""


def test_a_system_without_files_without_a_name_has_them_for_their_owner_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    assert _unnamed(tmp_path) is None
    write_private(tmp_path / "a.json", b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert ((tmp_path / "a.json").read_bytes(), (tmp_path / "a.json").stat().st_mode & OTHERS) == (b"text", 0)


def test_a_kill_in_the_middle_of_a_file_leaves_nothing(tmp_path: Path) -> None:
    descriptor = _unnamed(tmp_path)
    if descriptor is None:
        pytest.skip("this file system has no files without a name")
    os.close(descriptor)
    target = tmp_path / "folder" / "gold.jsonl"
    target.parent.mkdir()
    ended = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("name", [CASES, "trace.jsonl.gz", ".lock", "reviews.jsonl"])
def test_nothing_is_written_through_a_link(run: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    if (run / name).exists():
        (run / name).rename(elsewhere)
    else:
        elsewhere.touch()
    before = elsewhere.read_bytes()
    (run / name).symlink_to(elsewhere)
    review = ("review", run, "k0", "--by", "Ann", "--confirm")
    ended = evigraph(*(review if name == "reviews.jsonl" else ("resume", run)), folder=tmp_path)
    assert ended.code == 2
    assert f"{name}: is a symbolic link" in ended.line
    assert elsewhere.read_bytes() == before


def test_an_index_that_is_a_link_is_kept_in_memory(run: Path, tmp_path: Path) -> None:
    (run / "index.sqlite").unlink()
    (run / "index.sqlite").symlink_to(tmp_path / "elsewhere")
    assert evigraph("view", run, "--bundle", "pages", folder=tmp_path).code == 0
    assert not (tmp_path / "elsewhere").exists()


def test_a_dry_run_leaves_no_prompts(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases.jsonl", 2)
    (tmp_path / "temporary").mkdir()
    recipe = write_recipe(tmp_path)
    arguments = ("run", "tamu", "cases.jsonl", "--model", "scripted:auto", "--recipe", recipe, "--dry-run")
    given = {"TMPDIR": str(tmp_path / "temporary")}
    assert evigraph(*arguments, folder=tmp_path, environment=given).code == 0
    assert list((tmp_path / "temporary").iterdir()) == []
