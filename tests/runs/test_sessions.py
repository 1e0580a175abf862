"""Resume and retry: what they run, and when they are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from typer.testing import CliRunner

from cli.main import app
from graph.system import find_system
from runs import RunFolder
from tests.evigraph import Ended, evigraph, write_cases, write_recipe

FAILS_ONCE = """\
from pathlib import Path
from serving.backends.scripted import made_up_reply
from serving.protocol.errors import CallError

def reply(call):
    if call.case_id in ("k1", "k4") and Path("broken").exists():
        raise CallError("connection", "the server is gone")
    return made_up_reply(call)

def garbage(call):
    if call.case_id == "k2" and call.role == "label" and Path("broken").exists():
        return "no labels today"
    return made_up_reply(call)
"""


def run(folder: Path, recipe: Path, *more: str, model: str = "scripted:auto") -> Ended:
    return evigraph(
        *("run", "tamu", "cases.jsonl", "--recipe", str(recipe), "--model", model),
        *("--out", "run", "--json", "--max-retries", "0", *more),
        folder=folder,
    )


def script(folder: Path, function: str) -> str:
    (folder / "script.py").write_text(FAILS_ONCE)
    (folder / "broken").touch()
    return f"scripted:script.py:{function}"


def lines(folder: Path) -> dict[str, dict[str, Any]]:
    return {line["case_id"]: line for line in RunFolder(folder / "run").cases()}


def test_retry_finishes_exactly_the_failed_cases(tmp_path: Path, recipe: Path, cases: Path) -> None:
    first = run(tmp_path, recipe, model=script(tmp_path, "reply"))
    assert first.code == 1
    assert first.summary["errors"] == {"connection": 2}
    before = lines(tmp_path)
    assert {id_ for id_, line in before.items() if line["status"] == "failed"} == {"k1", "k4"}
    (tmp_path / "broken").unlink()
    second = evigraph("retry", "run", "--json", folder=tmp_path)
    assert (second.code, second.summary["done"], second.summary["failed"]) == (0, 6, 0)
    after = lines(tmp_path)
    assert all(after[id_] == before[id_] for id_ in before if id_ not in ("k1", "k4"))
    calls_of_a_case = after["k0"]["usage"]["calls"]
    assert second.summary["last_session"]["calls"] == 2 * calls_of_a_case


def test_retry_asks_anew_for_replies_that_could_not_be_used(
    tmp_path: Path, recipe: Path, cases: Path
) -> None:
    first = run(tmp_path, recipe, model=script(tmp_path, "garbage"))
    assert first.summary["errors"] == {"invalid_output": 1}
    (tmp_path / "broken").unlink()
    second = evigraph("retry", "run", "--json", folder=tmp_path)
    assert (second.code, second.summary["done"]) == (0, 6)


def test_a_finished_run_is_the_same_bytes_after_resume_and_calls_nothing(
    tmp_path: Path, recipe: Path, cases: Path
) -> None:
    run(tmp_path, recipe)
    before = (tmp_path / "run" / "cases.jsonl").read_bytes()
    again = evigraph("resume", "run", "--json", folder=tmp_path)
    assert (again.code, again.summary["last_session"]["calls"]) == (0, 0)
    assert (tmp_path / "run" / "cases.jsonl").read_bytes() == before


def test_resume_refuses_a_recipe_file_that_has_changed(tmp_path: Path, cases: Path) -> None:
    recipe = write_recipe(tmp_path)
    run(tmp_path, recipe)
    recipe.write_text(recipe.read_text().replace("threshold: 2", "threshold: 3"))
    ended = evigraph("resume", "run", folder=tmp_path)
    assert ended.code == 2
    assert "differs from the one that this run began with in: evidence.threshold" in ended.line


def test_resume_goes_on_without_the_recipe_file(tmp_path: Path, cases: Path) -> None:
    recipe = write_recipe(tmp_path)
    run(tmp_path, recipe)
    recipe.unlink()
    named = evigraph("resume", "run", "--recipe", "gone.yaml", folder=tmp_path)
    assert named.code == 2 and "gone.yaml: No such file" in named.line
    assert evigraph("resume", "run", folder=tmp_path).code == 0


def test_limits_come_back_with_a_resume(tmp_path: Path, recipe: Path, cases: Path) -> None:
    def limits() -> Any:
        return json.loads((tmp_path / "run" / "run.json").read_text())["limits"]

    assert run(tmp_path, recipe, "--timeout", "33").code == 0
    assert limits() == {"timeout": 33.0, "max_retries": 0}
    assert evigraph("resume", "run", "--max-retries", "4", "--rpm", "9", folder=tmp_path).code == 0
    # Four retries are the default, and asked for.
    assert limits() == {"timeout": 33.0, "rpm": 9}


def test_resume_refuses_case_files_that_have_changed(tmp_path: Path, recipe: Path, cases: Path) -> None:
    run(tmp_path, recipe)
    write_cases(cases, 7)
    ended = evigraph("resume", "run", folder=tmp_path)
    assert ended.code == 2
    assert "changed since this run began: case files" in ended.line


def test_resume_refuses_another_model(tmp_path: Path, recipe: Path, cases: Path) -> None:
    run(tmp_path, recipe)
    (tmp_path / "replies.jsonl").write_text(json.dumps({"reply": "x"}))
    ended = evigraph("resume", "run", "--model", "answer=scripted:replies.jsonl", folder=tmp_path)
    assert ended.code == 2
    assert "model of answer" in ended.line


def test_an_invalid_case_never_stops_the_others(tmp_path: Path, recipe: Path, cases: Path) -> None:
    with cases.open("a") as file:
        file.write('{"case_id": "no-id", "question": "q?", "sentences": [{"text": "no id"}]}\n')
        file.write('{"case_id": "empty", "question": "q?", "sentences": []}\n')
    ended = run(tmp_path, recipe)
    assert ended.code == 1
    assert ended.summary["errors"] == {"invalid_input": 2}
    assert ended.summary["done"] == 6
    assert "case empty failed: invalid_input: the note has no sentences\n" in ended.err
    assert "case no-id failed: invalid_input: " in ended.err


def test_only_the_first_failures_are_told_as_they_happen(tmp_path: Path, recipe: Path, cases: Path) -> None:
    cases.write_text("".join(f'{{"case_id": "e{number}", "question": "q?"}}\n' for number in range(30)))
    ended = run(tmp_path, recipe)
    assert ended.summary["failed"] == 30
    assert ended.err.count("failed: invalid_input") == 10
    assert "further failures: evigraph show run --failed" in ended.err


def test_a_full_disk_ends_in_one_line_and_loses_nothing(tmp_path: Path, recipe: Path, cases: Path) -> None:
    write_cases(cases, 60)
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "from cli.main import main\n"
        "main()\n"
    )
    (tmp_path / "small_disk.py").write_text(script)
    # Chroma's file grows whenever it is opened: the user's own may be above the limit by now.
    cache = {"EVIGRAPH_CACHE": str(tmp_path / "cache")}
    pool = ("demos", "list", "--embedding", "lexical:256")
    assert evigraph(*pool, folder=tmp_path, environment=cache).code == 0
    ended = evigraph_script(tmp_path, recipe, cache)
    assert ended.code == 1
    assert "all cases that ended are kept, go on with: evigraph resume run" in ended.line
    kept = lines(tmp_path)
    assert 0 < len(kept) < 60
    resumed = evigraph("resume", "run", "--json", folder=tmp_path)
    assert (resumed.code, resumed.summary["done"]) == (0, 60)
    assert all(lines(tmp_path)[id_] == line for id_, line in kept.items())


def evigraph_script(folder: Path, recipe: Path, environment: dict[str, str]) -> Ended:
    import os
    import subprocess
    import sys

    ended = subprocess.run(
        [
            *(sys.executable, "small_disk.py", "run", "tamu", "cases.jsonl", "--model", "scripted:auto"),
            *("--recipe", str(recipe), "--out", "run", "--concurrency", "2"),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def test_a_failed_reflection_is_one_line_with_the_class_of_its_error(
    tmp_path: Path, recipe: Path, cases: Path
) -> None:
    (tmp_path / "script.py").write_text(
        "from serving.backends.scripted import made_up_reply\n"
        "from serving.protocol.errors import CallError\n"
        "def reply(call):\n"
        "    if call.role == 'reflect' and call.sample > 0:\n"
        "        raise CallError('timeout', 'late')\n"
        "    return made_up_reply(call)\n"
    )
    ended = run(tmp_path, recipe, "--limit", "1", model="scripted:script.py:reply")
    assert (ended.code, lines(tmp_path)["k0"]["flags"]) == (0, ["failed_reflections"])
    trace = RunFolder(tmp_path / "run").trace("k0")
    reflections = [line for line in trace if line["node"] == "reflect_on_labels"]
    assert sorted(line["facts"]["vote"] for line in reflections) == [0, 1, 2]
    assert [line["facts"].get("error_class") for line in reflections].count("timeout") == 2
    shown = evigraph("show", "run", "k0", folder=tmp_path)
    assert shown.code == 0
    assert shown.out.count("no usable reflection (timeout: scripted: late); keeping the first labels") == 2


def test_a_fault_of_a_router_fails_its_cases_and_is_shown_at_its_step(
    tmp_path: Path, recipe: Path, cases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(state: object, runtime: object) -> Literal["align_answer"]:
        return cast("Literal['align_answer']", "align")

    tamu = find_system("tamu")
    assert "align_answer" in tamu.successors["check_answer"]
    monkeypatch.setattr("graph.tamu.after_check", unknown)
    monkeypatch.setitem(tamu.__dict__, "graph", tamu.build())
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "tamu", "cases.jsonl", "--recipe", str(recipe), "--limit", "2"]
    ended = CliRunner().invoke(app, [*arguments, "--model", "scripted:auto", "--out", "run", "--json"])
    assert ended.exit_code == 1
    assert json.loads(ended.stdout)["errors"] == {"internal": 2}
    shown = evigraph("show", "run", "k0", folder=tmp_path).out
    step = shown[shown.index(" check_answer") :]
    assert "error: KeyError: 'align'" in step[: step.index("failed: internal")]


def test_a_run_spares_the_collector_what_exists_before_it_and_only_while_it_lasts(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases.jsonl", 1)
    (tmp_path / "script.py").write_text(
        "import gc\nfrom multiprocessing.util import Finalize\nfrom pathlib import Path\n\n"
        "from runs.execute.batch import heap_was_frozen\n"
        "from serving.backends.scripted import made_up_reply\n\n"
        "def note(name):\n"
        "    Path(name).write_text(str(gc.get_freeze_count()))\n\n"
        "def reply(call):\n"
        "    note('during')\n"
        "    return made_up_reply(call)\n\n"
        "gc.unfreeze()\n"
        "heap_was_frozen.cache_clear()\n"
        "Finalize(None, note, ['after'], exitpriority=1)\n"
    )
    arguments = ["run", "direct", "cases.jsonl", "--model", "scripted:script.py:reply", "--out", "run"]
    assert evigraph(*arguments, folder=tmp_path).code == 0
    assert int((tmp_path / "during").read_text()) > 0
    assert int((tmp_path / "after").read_text()) == 0
