"""Runs that ended at an odd moment, in an odd folder or by an odd clock."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from evals.pages.tables import comma_separated
from runs.record.folder import RunFolder
from tests.evigraph import COMMAND, Ended, edit_manifest, evigraph, write_cases, write_recipe

SCRIPT = """\
import asyncio
from pathlib import Path
from serving.backends.scripted import made_up_reply

HERE = Path(__file__).parent

async def reply(call):
    odd = int(call.case_id[1:]) % 2
    if odd and (HERE / "fail").exists() and call.role == "label":
        return "nonsense"
    if odd and (HERE / "hang").exists():
        (HERE / "hangs").touch()
        await asyncio.sleep(600)
    return made_up_reply(call)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four cases, two of which failed by replies that could not be used."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "script.py").write_text(SCRIPT)
    (folder / "fail").touch()
    assert start(folder, "run").code == 1
    (folder / "fail").unlink()
    return folder


def start(folder: Path, out: str) -> Ended:
    cases, recipe = write_cases(folder / "cases.jsonl", 4), write_recipe(folder)
    model = f"scripted:{folder}/script.py:reply"
    return evigraph("run", "tamu", cases, "--recipe", recipe, "--model", model, "--out", out, folder=folder)


def test_a_folder_that_a_kill_left_without_a_manifest_is_used(made: Path) -> None:
    (made / "killed").mkdir()
    for name in (".run.json.tmp", ".0123456789abcdef.tmp", ".lock"):
        (made / "killed" / name).touch()
    assert start(made, "killed").code == 0


def test_a_run_before_its_first_session_can_be_shown(made: Path) -> None:
    shutil.copytree(made / "run", made / "early")
    edit_manifest(made / "early", sessions=[], status="running")
    shown = evigraph("show", "early", folder=made)
    assert (shown.code, shown.err) == (0, "")


def test_a_stopped_retry_says_how_to_go_on_and_can_be_shown(made: Path) -> None:
    shutil.copytree(made / "run", made / "stopped")
    (made / "hang").touch()
    command = [*COMMAND, "retry", "stopped", "--json"]
    with subprocess.Popen(command, cwd=made, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        while not (made / "hangs").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        summary = json.loads(process.communicate(timeout=120)[0])
    (made / "hang").unlink()
    assert (summary["done"], summary["failed"], summary["status"]) == (2, 2, "interrupted")
    assert summary["next"][0] == "evigraph retry stopped"
    shown = evigraph("show", "stopped", "k1", "--calls", folder=made)
    assert shown.code == 0 and "nonsense" in shown.out
    again = evigraph("retry", "stopped", "--json", folder=made).summary
    assert (again["done"], again["failed"], again["status"]) == (4, 0, "finished")


def test_a_clock_that_was_set_back_makes_no_time_negative(made: Path) -> None:
    shutil.copytree(made / "run", made / "clock")
    (session,) = RunFolder(made / "clock").manifest.sessions
    early = {**session.model_dump(), "finished": "2001-01-01T00:00:00+00:00"}
    edit_manifest(made / "clock", sessions=[early])
    assert evigraph("show", "clock", "--json", folder=made).summary["seconds"] == session.seconds


def test_suggested_commands_can_be_pasted(made: Path) -> None:
    shutil.copytree(made / "run", made / "a b; true")
    for command in evigraph("show", "a b; true", "--json", folder=made).summary["next"]:
        assert "a b; true" in shlex.split(command)


@pytest.mark.parametrize("cell", ["=1+1", "@SUM(A1)", "+cmd", "-cmd|' /C calc'!A0", "\t=1"])
def test_no_cell_of_a_table_is_a_formula(cell: str) -> None:
    assert comma_separated(["name"], [[cell]]).splitlines()[1].lstrip('"').startswith("'")


@pytest.mark.parametrize("cell", ["-0.5", "+0.012", "-", "-0.1 [-0.2, +0.3]", "plain", 3])
def test_numbers_stay_numbers(cell: object) -> None:
    assert "'" not in comma_separated(["name"], [[cell]])
