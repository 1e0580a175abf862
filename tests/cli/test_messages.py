"""Lines that name what they mean."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from cli.terminal import print_json
from runs.record.folder import COPY, MANIFEST
from tests.evals.scoring.runs import done, make_run
from tests.evigraph import evigraph, write_cases, write_recipe


def test_brackets_of_a_requirement_are_printed(tmp_path: Path) -> None:
    assert "pip install -e '.[vllm]'` in the clone" in " ".join(
        evigraph("models", "list", folder=tmp_path).out.split()
    )


def test_an_unknown_field_is_not_taken_for_one_that_it_is_unlike(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(
        '{"case_id": "a", "note": "x", "question": "q", "sentences": ["s"]}\n'
    )
    given = ("run", "direct", "cases.jsonl", "--model", "scripted:auto", "--out", "run")
    ended = evigraph(*given, folder=tmp_path)
    assert "note: unknown field; known are case_id," in ended.err


def test_a_pool_names_the_case_that_cannot_be_read(tmp_path: Path) -> None:
    cases = write_cases(tmp_path / "cases.jsonl", 2)
    entries = [json.loads(line) | {"answer": "For a leak."} for line in cases.read_text().splitlines()]
    broken = entries[1] | {"sentences": [1]}
    cases.write_text("".join(json.dumps(entry) + "\n" for entry in (entries[0], broken)))
    ended = evigraph("demos", "build", cases, "--to", "pool", "--embedding", "lexical:64", folder=tmp_path)
    assert "case k1 is left out: " in ended.err and "line 2" in ended.err
    assert "neither labels nor an answer" not in ended.err
    assert "1 demonstration " in ended.out


def test_a_submitted_case_that_cannot_be_read_is_not_said_to_be_foreign(tmp_path: Path) -> None:
    labels = {"1": "essential", "2": "not-relevant", "3": "essential"}
    make_run(tmp_path, "78", [done("7")], labels=labels, unreadable="8")
    entries = [{"case_id": id_, "prediction": ["1"]} for id_ in "78"]
    (tmp_path / "s.json").write_text(json.dumps(entries))
    ended = evigraph("score", "s.json", "--cases", "cases.jsonl", folder=tmp_path)
    assert ended.code == 2
    assert "case '8' cannot be scored, as it cannot be read: cases.jsonl: line 2" in ended.line


def test_one_of_a_thing_is_not_called_several(tmp_path: Path) -> None:
    labels = {"1": "essential", "2": "not-relevant", "3": "essential"}
    make_run(tmp_path, "7", [done("7")], labels=labels)
    out = evigraph("score", "run", "--task", "2026-2", folder=tmp_path).out
    assert "2026, subtask 2: evidence  1 case\n" in out


def test_json_says_the_same_and_drives_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a\x1b[31m\u202eb\u2066\x9b2J\x7f\u0085é\U0001f600"
    print_json({"answer": text})
    said = capsys.readouterr().out
    assert json.loads(said) == {"answer": text}
    assert not set(said.rstrip("\n")) & set("\x1b\u202e\u2066\x9b\x7f\u0085") and "é\U0001f600" in said


def test_names_that_are_not_utf8_are_printed_and_exported(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    write_cases(tmp_path / "cases.jsonl", 1)
    write_recipe(tmp_path)
    given = ("--recipe", "lexical.yaml", "--model", "scripted:auto", "--no-probe")
    for language in ("C.UTF-8", "C"):
        out = f"{name}{language}"
        ran = evigraph(
            *("run", "tamu", "cases.jsonl", *given, "--out", out),
            folder=tmp_path,
            environment={"LC_ALL": language},
        )
        assert ran.code == 0, ran.err
        assert f"caf\N{REPLACEMENT CHARACTER}{language}" in ran.out
        shown = evigraph("show", out, "--json", folder=tmp_path, environment={"LC_ALL": language})
        assert shown.code == 0 and json.loads(shown.out)
        exported = evigraph("export", out, "--csv", "--out", "tables", folder=tmp_path)
        assert exported.code == 0, exported.err
    (tmp_path / "cases.jsonl").rename(tmp_path / f"{name}.jsonl")
    refused = evigraph("run", "tamu", f"{name}.jsonl", *given, "--out", "run", folder=tmp_path)
    assert refused.code == 2
    assert refused.line.endswith("run.json cannot name it, as its name is not UTF-8; rename it")


UNKNOWN = {
    "vllm-offline:tiny": "unknown provider 'vllm-offline' in model 'vllm-offline:tiny'; known: embedded",
    "batch:vllm:tiny": "model 'batch:vllm:tiny' has no batches; anthropic, google_genai, openai have",
}
"""What `resume` prints for the model of a run."""


@pytest.mark.parametrize("model", UNKNOWN)
def test_a_run_with_an_unknown_model_is_refused_in_one_line(tmp_path: Path, model: str) -> None:
    write_cases(tmp_path / "cases.jsonl", 1)
    given = ("run", "direct", "cases.jsonl", "--model", "scripted:auto", "--out", "run")
    assert evigraph(*given, folder=tmp_path).code == 0
    run = tmp_path / "run"
    recorded = (run / MANIFEST).read_text().replace('"scripted:auto"', json.dumps(model))
    (run / MANIFEST).write_text(re.sub(r',\s*"crc32": "\w+"', "", recorded))
    (run / COPY).unlink()
    refused = evigraph("resume", "run", folder=tmp_path)
    assert refused.code == 2 and UNKNOWN[model] in refused.line
    assert evigraph("status", "run", folder=tmp_path).code == 0


def test_a_suggested_command_is_one_line_however_narrow_the_terminal(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases.jsonl", 2)
    key = [
        {"case_id": f"k{n}", "answers": [{"sentence_id": "1", "relevance": "essential"}]} for n in range(2)
    ]
    (tmp_path / "key.json").write_text(json.dumps(key))
    pool = tmp_path / "a folder with a long name, on a long path" / "pool of all that was annotated"
    built = evigraph(
        *("demos", "build", "cases.jsonl", "--key", "key.json", "--to", pool, "--embedding", "lexical:64"),
        folder=tmp_path,
        environment={"COLUMNS": "40"},
    )
    assert f"      evigraph run tamu CASES... --model STRING --demos '{pool}'" in built.out.splitlines()


def test_so_are_those_among_facts_while_prose_wraps_between_words(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases.jsonl", 1)
    run = tmp_path / "runs of a folder with a long name" / "the run of today"
    started = ("run", "tamu", "cases.jsonl", "--recipe", write_recipe(tmp_path), "--model", "scripted:auto")
    assert evigraph(*started, "--out", run, folder=tmp_path).code == 0
    shown = evigraph("show", run, folder=tmp_path, environment={"COLUMNS": "40"}).out.splitlines()
    assert f"next    evigraph show '{run}'" in shown
    assert f"        evigraph show '{run}' k0" in shown
    wrapped = shown.index("calls   8 made, 0 replayed from the")
    assert shown[wrapped + 1] == "        journal"
