"""Cases that ended although a request of theirs had failed: counted, shown, and run again by a retry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runs.record.folder import RunFolder
from tests.evigraph import evigraph, write_cases, write_recipe

SCRIPT = """\
from pathlib import Path
from serving.backends.scripted import made_up_reply
from serving.protocol.errors import CallError
HERE = Path(__file__).parent
def reply(call):
    if call.role == 'reflect' and call.sample == 1 and call.case_id in ('k0', 'k2'):
        if not (HERE / 'well').exists():
            raise CallError('timeout', 'late')
        # Other evidence than without this vote, so that the answer is asked for again.
        return str({str(id_): 'essential' for id_ in range(1, 7)}).replace("'", '"')
    if call.role in ('label', 'reflect'):
        labels = {str(id_): 'essential' if id_ == 1 else 'not-essential' for id_ in range(1, 7)}
        return str(labels).replace("'", '"')
    if call.role == 'answer' and (HERE / 'worse').exists():
        raise CallError('timeout', 'late')
    return made_up_reply(call)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four cases, two of them with a reflection that failed."""
    folder = tmp_path_factory.mktemp("impaired")
    write_cases(folder / "cases.jsonl", 4)
    (folder / "script.py").write_text(SCRIPT)
    recipe = write_recipe(folder)
    command = ("run", "tamu", "cases.jsonl", "--recipe", recipe, "--model", "scripted:script.py:reply")
    ended = evigraph(*command, "--out", "run", "--json", "--max-retries", "0", folder=folder)
    assert (ended.code, ended.summary["done"], ended.summary["impaired"]) == (0, 4, 2)
    assert "evigraph retry run --impaired" in ended.summary["next"]
    return folder


def flags(folder: Path) -> dict[str, list[str]]:
    return {line["case_id"]: line["flags"] for line in RunFolder(folder / "run").cases()}


def test_they_are_counted_and_completed_by_asking_only_for_what_failed(folder: Path) -> None:
    before = (folder / "run" / "cases.jsonl").read_bytes()
    shown = evigraph("show", "run", "--impaired", folder=folder)
    assert shown.out.count("failed reflections") == 3
    assert "2 cases with failed requests (failed reflections in 2)" in shown.out
    assert json.loads((folder / "run" / "run.json").read_text())["counts"]["impaired"] == 2

    # A complete failure must not replace an existing result.
    for name in ("well", "worse"):
        (folder / name).touch()
    worse = evigraph("retry", "run", "--impaired", "--json", "--max-retries", "0", folder=folder)
    assert (worse.code, worse.summary["cases_run"], worse.summary["impaired"]) == (0, 2, 2)
    assert "case k0 failed this time, so it stays as it was" in worse.err
    assert (folder / "run" / "cases.jsonl").read_bytes() == before
    (folder / "worse").unlink()

    retried = evigraph("retry", "run", "--impaired", "--json", folder=folder)
    assert (retried.code, retried.summary["done"], retried.summary["impaired"]) == (0, 4, 0)
    assert flags(folder) == {f"k{number}": [] for number in range(4)}
    assert "impaired" not in json.loads((folder / "run" / "run.json").read_text())["counts"]
    # The two reflections, then the two answers that follow from other labels; all else is replayed.
    assert [one.summary["last_session"]["calls"] for one in (worse, retried)] == [2, 2]
    assert not any("--impaired" in command for command in retried.summary["next"])
