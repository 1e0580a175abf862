"""heiDS from the command line: what runs keep, refuse, estimate, submit and report of their thresholds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runs.record.folder import RunFolder
from tests.evals.scoring.submissions import CASES
from tests.evigraph import Ended, evigraph

AFTERWARDS = """\
system: heids
retrieval: {retriever: bm25, cutoff: {rule: top_k, k: 5}}
citation: {method: post_generation, weights: {lexical: 0.5, fuzzy: 0.5, semantic: 0}}
answer: {min_sentences: 1}
"""
"""Without weights."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heids")
    (folder / "afterwards.yaml").write_text(AFTERWARDS)
    ended = run(folder, "--recipe", "afterwards.yaml", "--out", "later")
    assert ended.code == 0, ended.err
    return folder


def run(folder: Path, *arguments: str, system: str = "heids") -> Ended:
    return evigraph(
        *("run", system, str(CASES), "--model", "scripted:auto", "--limit", "2", *arguments), folder=folder
    )


def test_a_reranker_orders_what_was_retrieved(folder: Path) -> None:
    ended = run(folder, "--retriever", "bm25", "--reranker", "bm25", "--out", "reranked")
    assert ended.code == 0, ended.err
    manifest = json.loads((folder / "reranked" / "run.json").read_text())
    assert manifest["resources"]["retrieval"]["reranker"].startswith("bm25")


def test_every_threshold_and_weight_is_swept_without_a_model(folder: Path) -> None:
    found = evigraph("analyse", "later", "--json", "--html", "page.html", folder=folder).summary
    rows: list[dict[str, Any]] = found["rows"]
    own = [row for row in rows if row["weights"] == found["weights"]]
    assert [row["threshold"] for row in own] == [number / 10 for number in range(1, 10)]
    assert [row["citations"] for row in own] == sorted((row["citations"] for row in own), reverse=True)
    assert own[0]["citations"] > own[-1]["citations"]
    assert len(rows) == 6 * len(own)
    assert "<svg" in (folder / "page.html").read_text()


def test_the_sweep_at_the_runs_threshold_is_its_score(folder: Path) -> None:
    found = evigraph("analyse", "later", "--json", folder=folder).summary
    (own,) = [
        row
        for row in found["rows"]
        if row["weights"] == found["weights"] and row["threshold"] == found["threshold"]
    ]
    labels = [line["labels"] for line in RunFolder(folder / "later").cases()]
    scored = evigraph("score", "later", "--task", "2026-2", "--json", folder=folder).summary["tasks"][0]
    assert own["strict_micro"]["f1"] == pytest.approx(scored["values"]["strict_micro_f1"])
    assert own["cited"] == sum(label == "essential" for one in labels for label in one.values())


@pytest.mark.parametrize(
    ("system", "arguments", "line"),
    [
        ("heids", ["--votes", "7"], "recipes of 'heids' have no field for --votes; leave it out"),
        ("tamu", ["--retriever", "bm25"], "recipes of 'tamu' have no field for --retriever; leave it out"),
        ("heids", ["--retriever", "nowhere"], "ranker 'nowhere': folder not found"),
        ("heids", ["--evidence", "ranker"], "recipes of 'heids' have no field for --evidence; leave it out"),
        (
            "heids",
            ["--recipe", "aligned.yaml"],
            "recipe aligned.yaml: unknown field 'alignment'; known: system, ",
        ),
    ],
)
def test_what_the_graph_cannot_do_is_refused(
    folder: Path, system: str, arguments: list[str], line: str
) -> None:
    (folder / "aligned.yaml").write_text("system: heids\nalignment: {answer: generated}\n")
    ended = run(folder, *arguments, "--out", "never", system=system)
    assert ended.code == 2
    assert line in ended.line


def test_a_table_of_acronyms_is_part_of_the_run(folder: Path) -> None:
    (folder / "mine.yaml").write_text("extends: none\nacronyms: {PICU: paediatric intensive care unit}\n")
    recipe = {
        "system": "heids",
        "stop_after": "evidence",
        "retrieval": {"retriever": "bm25", "expand_acronyms": True, "acronyms": "mine.yaml"},
    }
    (folder / "acronyms.yaml").write_text(json.dumps(recipe))
    ended = run(folder, "--recipe", "acronyms.yaml", "--out", "written-out")
    assert ended.code == 0, ended.err
    manifest = RunFolder(folder / "written-out").manifest
    assert manifest.resources["retrieval"]["acronyms_sha256"] is not None
    assert manifest.sessions[0].calls == 0
