"""Every system is scored, compared, put into an experiment and reported on in the same way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.evigraph import evigraph

SAMPLES = Path(__file__).parents[2] / "cases" / "samples"
WEAK = [
    {
        "case_id": f"w{number}",
        "question": f"Why was procedure {number} done?",
        "sentences": ["Stable.", f"Procedure {number} was done for a leak.", "Smoker."],
        "answer": f"Procedure {number} was for a leak.",
    }
    for number in range(4)
]
KEY = [
    {"case_id": f"w{number}", "answers": [{"sentence_id": id_, "relevance": "essential"} for id_ in "12"]}
    for number in range(4)
]

NOTES = "cases: batch.xml"
OTHER = "{set: {seed: 7}}"
GRIDS = {
    "tamu": (
        NOTES,
        "{set: {embedding: 'lexical:64', evidence.votes: 3, evidence.threshold: 2}}",
        "{set: {embedding: 'lexical:64', evidence.votes: 1, evidence.threshold: 1}}",
    ),
    "heids": (
        NOTES,
        "{set: {retrieval.retriever: bm25}}",
        "{set: {retrieval.retriever: bm25, seed: 7}}",
    ),
    "direct": (NOTES, "{}", OTHER),
    "weak_labels": ("cases: weak.jsonl\nkey: key.json", "{}", OTHER),
    "timeaware": ("cases: health/questions.jsonl\ncorpus: health-corpus", "{}", OTHER),
    "bioasq": ("cases: bioasq/questions.json", "{}", OTHER),
}
"""By system: where its cases are, and two cells."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("systems") / "samples"
    shutil.copytree(SAMPLES, folder)
    (folder / "weak.jsonl").write_text("".join(json.dumps(case) + "\n" for case in WEAK))
    (folder / "key.json").write_text(json.dumps(KEY))
    build = ("corpus", "build", "health/literature.jsonl", "--out", "health-corpus")
    assert evigraph(*build, folder=folder).code == 0
    return folder


@pytest.mark.parametrize("system", GRIDS)
def test_a_system_is_compared_tabled_and_reported(folder: Path, system: str) -> None:
    cases, one, other = GRIDS[system]
    (folder / f"{system}.yaml").write_text(
        f"recipe: {system}\n{cases}\nmodel: scripted:auto\ncells:\n  one: {one}\n  other: {other}\n"
        "tables: {scores: [one, other]}\n"
    )
    ended = evigraph("experiment", f"{system}.yaml", "--limit", "8", "--out", system, "--json", folder=folder)
    assert ended.code == 0, ended.err
    tables = ended.summary["tables"]
    values = [table["rows"][1]["values"][table["headline"]]["value"] for table in tables]
    assert values and all(table["rows"][1]["p_value"] is not None for table in tables)

    key = ("--key", "key.json") if "key:" in cases else ()
    runs = [f"{system}/cells/{name}" for name in ("one", "other")]
    tasks = evigraph("compare", *runs, *key, "--json", folder=folder).summary["tasks"]
    metrics = [{metric["name"]: metric for metric in task["metrics"]} for task in tasks]
    headlines = [table["headline"] for table in tables]
    compared = [by_name[name]["second"]["value"] for by_name, name in zip(metrics, headlines, strict=True)]
    assert compared == pytest.approx(values)
    for table, by_name in zip(tables, metrics, strict=True):
        main = {name for name, metric in by_name.items() if metric["main"]}
        assert {*table["columns"]} == main | {table["headline"]}

    card = evigraph("card", runs[1], *key, "--json", folder=folder).summary
    performance = next(item for item in card["items"] if item["item"] == "17")["known"]
    assert any("[" in value for value in performance.values())
