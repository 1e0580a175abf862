"""Runs whose recipe asks for each sentence by itself: calls, resume, dry run, and models that cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evigraph import Ended, evigraph
from tests.serving.fake_abilities import Abilities
from tests.serving.fake_server import MODEL, FakeServer, Say

RECIPE = """\
system: tamu
embedding: lexical:256
stop_after: evidence
evidence: {reply: pointwise}
"""
SENTENCES = 4
NOTE = [f"Sentence {number}." for number in range(1, SENTENCES + 1)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pointwise.yaml").write_text(RECIPE)
    lines = [{"case_id": str(n), "question": f"Why {n}?", "sentences": NOTE} for n in (1, 2)]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def run(folder: Path, model: str, *more: str, recipe: str = "pointwise.yaml") -> Ended:
    return evigraph(
        *("run", "tamu", "cases.jsonl", "--recipe", recipe, "--model", model, "--json", *more), folder=folder
    )


def cases(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out" / "cases.jsonl").read_text().splitlines()]


def test_a_failed_case_is_retried_at_the_sentences_without_a_reply(folder: Path) -> None:
    replies = [{"reply": {"Yes": 0.6, "No": 0.4}}, {"fail": "timeout", "case": "2"}]
    (folder / "replies.jsonl").write_text("".join(json.dumps(one) + "\n" for one in replies))
    assert run(folder, "scripted:replies.jsonl", "--out", "out", "--max-retries", "0").code == 1
    failed = next(line for line in cases(folder) if line["case_id"] == "2")
    assert failed["error"]["class"] == "timeout"
    assert "0 of 4 sentences with a label" in failed["error"]["message"]


def test_a_server_is_asked_for_log_probabilities(folder: Path, server: FakeServer) -> None:
    server.default = Say(("Yes",), ("length",))
    ended = run(folder, f"vllm:{MODEL}@{server.url}", "--out", "out")
    assert ended.code == 0, ended.err
    assert len(server.chats) == 2 * SENTENCES
    assert all((body["max_tokens"], body["top_logprobs"]) == (1, 20) for body in server.chats)
    assert all(score > 0 for line in cases(folder) for score in line["model_scores"].values())


def test_a_server_without_log_probabilities_ends_the_command_before_a_run(
    folder: Path, server: FakeServer
) -> None:
    server.abilities = Abilities(refuses=frozenset({"logprobs"}))
    ended = run(folder, f"vllm:{MODEL}@{server.url}", "--out", "out")
    assert ended.code == 2
    assert "does not return log-probabilities, but evidence.reply 'pointwise' needs" in ended.line
    assert server.chats == [] and not (folder / "out").exists()


def test_what_contradicts_the_form_is_one_line(folder: Path) -> None:
    ended = run(folder, "scripted:auto", "--out", "out", "--votes", "5")
    assert ended.code == 2
    assert "set votes to 1" in ended.line
