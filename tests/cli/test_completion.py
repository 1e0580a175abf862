from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.completion import VARIABLE, run_names
from tests.evigraph import COMMAND, evigraph, program

HEAVY = {"langgraph", "langchain_core", "chromadb", "torch", "numpy", "runs", "nodes", "evals"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "out" / "2026-tamu"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "remarks.json").write_text('{"tags": ["best"], "note": ""}')
    broken = tmp_path / "out" / "study" / "broken"
    broken.mkdir(parents=True)
    (broken / "run.json").write_text("{}")
    (broken / "remarks.json").write_text("[")
    return tmp_path


def tab(folder: Path, *words: str) -> list[str]:
    """What bash is told of the last word."""
    environment = {"COMP_WORDS": "\n".join(("evigraph", *words)), "COMP_CWORD": str(len(words))}
    ended = evigraph(folder=folder, environment={**environment, VARIABLE: "complete_bash"})
    assert ended.code == 0 and not ended.err
    return ended.out.splitlines()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("resu",), ["resume"]),
        (("show", "la"), ["last"]),
        (("show", "b"), ["best", "broken"]),
        (("show", "out/"), ["out/2026-tamu", "out/study/broken"]),
        (("compare", "best", "20"), ["2026-tamu"]),
        (("run", "tri"), ["triage"]),
        (("graph", "heids"), ["heids"]),
        (("run", "tamu", "c.xml", "--recipe", "tamu-s"), ["tamu-submitted"]),
        (("ask", "Why?", "-r", "lap"), ["laptop"]),
        (("run", "tamu", "c.xml", "-m", "anth"), ["anthropic:"]),
        (("run", "tamu", "c.xml", "-m", "embedded", ":", "smol"), ["smollm2-135m"]),
        (("run", "tamu", "c.xml", "-m", "answer", "=", "oll"), ["ollama:"]),
        (("run", "tamu", "c.xml", "--model", "="), ["openai:"]),
        (("run", "tamu", "no"), []),
    ],
)
def test_names_are_completed(folder: Path, words: tuple[str, ...], completed: list[str]) -> None:
    found = tab(folder, *words)
    assert sorted(found) == completed if words[-1] != "=" else {*completed} <= {*found}


@pytest.mark.parametrize("words", ["evigraph show ", "evigraph run ta", "evigraph run tamu c.xml -m "])
def test_tab_imports_nothing_heavy(folder: Path, words: str) -> None:
    loaded = f"print(*({HEAVY} & {{*sys.modules}}), file=sys.stderr)"
    report = f"import atexit, sys; atexit.register(lambda: {loaded})\n"
    given = {**os.environ, VARIABLE: "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
    command = [*COMMAND[:2], report + COMMAND[2]]
    ended = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("_arguments") and ended.stderr.split() == []


@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_one_command_installs_it_in_bash(folder: Path) -> None:
    given = {**os.environ, "HOME": str(folder), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    installed = evigraph("--install-completion", "bash", folder=folder, environment=given)
    assert installed.code == 0 and "bash completion installed" in installed.out
    script = (
        f"source ~/.bashrc; COMP_WORDS=(evigraph show be); COMP_CWORD=2; "
        f"_evigraph_completion {program('evigraph')}; echo ${{COMPREPLY[@]}}"
    )
    shell = ["bash", "--norc", "-c", script]
    ended = subprocess.run(shell, cwd=folder, env=given, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["best"]


def test_runs_far_below_are_not_looked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for place in ("a/b/c/near", "a/b/c/d/far"):
        (folder / "out" / place).mkdir(parents=True)
        (folder / "out" / place / "run.json").write_text("{}")
    names = run_names("")
    assert names[0] == "last" and "best" in names
    assert ("out/a/b/c/near" in names, "out/a/b/c/d/far" in names) == (True, False)
