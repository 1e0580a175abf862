"""`evigraph train` as a user meets it; what it learns is tested in tests/ranking/training."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cli.data.train import _new_folder
from ranking.rankers.ranker import CHECKPOINT
from tests.evigraph import COMMAND, Ended, said, write_cases
from tests.evigraph import evigraph as run_command
from tests.ranking.training.tiny import encoder_on_disk, examples

# Threads wait for each other longer than such a model takes.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
RECIPE = """\
model: {encoder: ENCODER, max_query_tokens: 8, max_sentence_tokens: 8}
epochs: 2
"""


def evigraph(*arguments: str, folder: Path) -> Ended:
    return run_command(*arguments, folder=folder, environment=ONE_THREAD)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    encoder = encoder_on_disk(folder / "encoder")
    (folder / "tiny.yaml").write_text(RECIPE.replace("ENCODER", encoder))
    lines = [
        {"id": one.id, "query": one.query, "sentences": one.sentences, "labels": one.labels}
        for one in examples()
    ]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_a_ranker_is_trained_and_the_line_says_what_is_next(folder: Path) -> None:
    ended = evigraph("train", "tiny.yaml", "--data", "data.jsonl", "--out", "ranker", folder=folder)
    assert ended.code == 0
    assert ended.out.startswith("tiny: trained on 8 examples, best epoch ")
    assert ended.out.endswith("It is in ranker; next: evigraph rank ranker\n")
    assert (folder / "ranker" / "curve.svg").read_text().startswith("<svg")
    sources = json.loads((folder / "ranker" / "ranker.json").read_text())["data"]["sources"]
    assert sources == ["data.jsonl"]


def test_a_signal_ends_it_with_the_command_that_goes_on(folder: Path) -> None:
    command = ["train", "tiny.yaml", "--data", "data.jsonl", "--epochs", "10000", "--out", "long"]
    started = subprocess.Popen(
        [*COMMAND, *command], cwd=folder, env={**os.environ, **ONE_THREAD}, stderr=subprocess.PIPE, text=True
    )
    while not (folder / "long" / "training" / "state.pt").exists():
        assert started.poll() is None
        time.sleep(0.02)
    os.kill(started.pid, signal.SIGINT)
    _, messages = started.communicate(timeout=120)
    assert started.returncode == 130
    assert "evigraph: interrupted; go on with evigraph train --resume long" in messages
    refused = evigraph("train", "--resume", "long", "--epochs", "3", folder=folder)
    assert refused.code == 2
    assert "begun with other values of epochs" in refused.line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["pointwse", "--data", "data.jsonl"], "did you mean 'pointwise'?"),
        (["--resume", "nowhere"], "nowhere: no training was begun there, so there is nothing to resume"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(folder: Path, arguments: list[str], line: str) -> None:
    ended = evigraph("train", *arguments, folder=folder)
    assert ended.code == 2
    assert line in ended.line
    assert not (folder / "out").exists()


def test_the_cheapest_ranker_is_fitted_in_one_go(folder: Path) -> None:
    ended = evigraph("train", "logistic", "--data", "data.jsonl", "--out", "cheap", folder=folder)
    assert ended.code == 0
    assert ": fitted on 10 examples; micro F1 " in ended.out
    ended = evigraph("train", "logistic", "--data", "data.jsonl", "--epochs", "3", folder=folder)
    assert (ended.code, "no such setting" in ended.err) == (2, True)


def test_a_ranker_is_not_written_over_and_a_folder_has_the_time_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_cases(tmp_path / "cases.jsonl", 1)
    (tmp_path / CHECKPOINT).touch()
    given = ("train", "logistic", "--data", "cases.jsonl", "--out", tmp_path)
    assert said(*given) == f"{tmp_path}: holds a ranker already; give another --out"
    assert re.fullmatch(r"out/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-logistic", str(_new_folder("logistic")))
