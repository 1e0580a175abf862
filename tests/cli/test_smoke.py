"""Each command that the goldens do not run works once; other tests check its behaviour."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from cli.main import app
from serving.policy import gate
from tests.evigraph import write_cases, write_recipe
from tests.goldens.outputs import leaves
from tests.ranking.training.tiny import examples
from tests.serving.fake_server import FakeServer, Obey

GOLDENS = Path(__file__).parents[1] / "goldens"
RUN = ("run", "tamu", "cases.jsonl", "--recipe", "lexical.yaml", "--model", "scripted:auto")


class Given(NamedTuple):
    """What is typed after the words of the command, what it says, and whether it is refused."""

    arguments: tuple[str, ...]
    says: str
    refused: bool = False


SMOKE = {
    # Its port is taken, so it refuses to serve instead of serving for ever.
    "api": Given(("service", "--model", "scripted:auto", "--port", "PORT"), "is in use", refused=True),
    "ask": Given(
        ("Why was it done?", "--note", "note.txt", "--model", "scripted:auto", "--out", "asked"), "asked"
    ),
    "audit": Given(("run",), "started"),
    "bench": Given(("--list",), "overhead"),
    "calibrate": Given(
        ("run", "--key", "key.json", "--ranker", "bm25", "--out", "calibrated.yaml"), "calibrated"
    ),
    "card": Given(("run", "--out", "card.md"), "card.md"),
    "cases import": Given(("notes.csv", "--out", "imported.jsonl"), "1 case"),
    "cases pubmedqa": Given(("pqal.json", "--out", "yesno.json"), "1 question"),
    "cases scifact": Given(("scifact", "--out", "claims.jsonl"), "1 case"),
    "check": Given(("run",), "calls"),
    "init": Given(("study",), "recipe.yaml"),
    "merge": Given(("shards/0", "shards/1", "--out", "merged"), "merged"),
    "models check": Given(("vllm:test-model@URL",), "test-model"),
    "models pull": Given(("none",), "unknown embedded model 'none'", refused=True),
    "optimise": Given(
        ("lexical.yaml", "--cases", "cases.jsonl", "--model", "scripted:auto", "--out", "optimised"),
        "--budget",
        refused=True,
    ),
    "prompts copy": Given(("label_evidence", "--to", "prompts"), "prompts"),
    "prompts list": Given((), "label_evidence"),
    "prompts show": Given(("label_evidence",), "essential"),
    "purge": Given(("purged", "--yes"), "purged"),
    "review adjudicate": Given(("run",), "next: evigraph review adjudicate run"),
    "review agreement": Given(("run",), "run"),
    "review assign": Given(("assigned", "--to", "ann,ben", "--each", "1"), "ann"),
    "review case": Given(("run", "k0"), "k0"),
    "runs note": Given(("run", "a first run"), "a first run"),
    "runs pull": Given(("file://FOLDER/pushed", "--out", "pulled"), "pulled"),
    "runs push": Given(("run", "file://FOLDER/bucket"), "bucket"),
    "runs tag": Given(("run", "first"), "first"),
    "scan": Given(("cases.jsonl",), "2 cases"),
    "status": Given(("run",), "finished"),
    "train": Given(("logistic", "--data", "examples.jsonl", "--out", "ranker"), "fitted on"),
    "users add": Given(("ana", "--role", "view", "--users", "people/users.json"), "ana"),
    "users list": Given(("--users", "some/users.json"), "ben"),
    "users remove": Given(("cyd", "--users", "some/users.json"), "cyd"),
}


def recorded() -> set[str]:
    """The commands that a golden shows."""
    typed = re.compile(r"\$ evigraph (.*)")
    found = {
        words[1]
        for path in GOLDENS.rglob("*.txt")
        if (words := typed.match(path.read_text("utf-8").partition("\n")[0]))
    }
    return {one for one in leaves() if any(f"{line} ".startswith(f"{one} ") for line in found)}


def invoke(*words: str, refused: bool = False) -> str:
    """What a command prints, and the line that it ends with."""
    gate.release()
    ended = CliRunner().invoke(app, words)
    said = f"{ended.output}{ended.exception or ''}"
    assert (ended.exit_code != 0) == refused, said
    return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        write_recipe(folder)
        write_cases(folder / "cases.jsonl", 2)
        key = [
            {"case_id": f"k{one}", "answers": [{"sentence_id": "1", "relevance": "essential"}]}
            for one in range(2)
        ]
        (folder / "key.json").write_text(json.dumps(key))
        (folder / "note.txt").write_text("A drain was placed.\n")
        (folder / "notes.csv").write_text("case_id,question,note\nn1,Why?,A drain was placed.\n")
        entry = {"QUESTION": "Does it help?", "CONTEXTS": ["It did."], "final_decision": "yes"}
        (folder / "pqal.json").write_text(json.dumps({"1": entry}))
        (folder / "scifact").mkdir()
        claim = {"id": 1, "claim": "It helps.", "cited_doc_ids": [1]}
        claim["evidence"] = {"1": [{"sentences": [0], "label": "SUPPORT"}]}
        (folder / "scifact" / "claims_train.jsonl").write_text(json.dumps(claim) + "\n")
        abstract = {"doc_id": 1, "title": "T", "abstract": ["It did.", "It was cheap."]}
        (folder / "scifact" / "corpus.jsonl").write_text(json.dumps(abstract) + "\n")
        lines = [
            {"id": one.id, "query": one.query, "sentences": one.sentences, "labels": one.labels}
            for one in examples()
        ]
        (folder / "examples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        invoke(*RUN, "--out", "run")
        for index in range(2):
            invoke(*RUN, "--shard", f"{index}/2", "--out", f"shards/{index}")
        for copy in ("purged", "assigned"):
            shutil.copytree(folder / "run", folder / copy)
        invoke("runs", "push", "run", f"file://{folder}/pushed")
        for name in ("ben", "cyd"):
            invoke("users", "add", name, "--role", "view", "--users", "some/users.json")
        yield folder


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    server = FakeServer(models={"data": [{"id": "test-model", "max_model_len": 100_000}]}, default=Obey())
    server.start()
    yield server
    server.stop()


def test_every_command_is_in_a_golden_or_here() -> None:
    assert leaves() - recorded() - set(SMOKE) == set()
    assert set(SMOKE) <= leaves()


@pytest.mark.parametrize("command", SMOKE)
def test_a_command_works(command: str, folder: Path, server: FakeServer) -> None:
    given = SMOKE[command]
    port = server.url.split(":")[2].partition("/")[0]
    words = [
        one.replace("FOLDER", str(folder)).replace("URL", server.url).replace("PORT", port)
        for one in given.arguments
    ]
    assert given.says in invoke(*command.split(), *words, refused=given.refused)
