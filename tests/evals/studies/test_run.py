from __future__ import annotations

from pathlib import Path

import pytest

from evals.studies.data import read_study_data
from evals.studies.definition import Study
from evals.studies.jobs import Job, Plan, plan
from evals.studies.report import report
from evals.studies.run import Outcome, run_jobs
from evals.studies.worker import Report, attempt
from tests.evals.studies.claims import write_examples
from tests.evals.studies.tiny_encoder import save_tiny_encoder


class Quiet:
    def __init__(self) -> None:
        self.began_with: list[str] = []

    def notify(self, text: str) -> None: ...

    def began(self, job: Job) -> None:
        self.began_with.append(job.name)

    def progress(self, job: Job, report: Report, seconds: float) -> None: ...

    def ended(self, job: Job, report: Report, seconds: float) -> None: ...


def planned(folder: Path) -> Plan:
    study = Study.model_validate(
        {
            "recipe": "pointwise",
            "set": {"epochs": 1, "model.encoder": str(folder / "tiny")},
            "seeds": [1, 2],
            "rows": {
                "cross": {},
                "broken": {"set": {"model.encoder": str(folder / "nowhere")}},
                "bm25": {"baseline": "bm25"},
            },
            "tables": {"tamu-1": ["cross", "broken", "bm25"]},
        }
    )
    return plan(study, read_study_data(study, [folder / "a.jsonl"], []), folder / "out")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("study")
    save_tiny_encoder(made / "tiny")
    write_examples(made / "a.jsonl", 30, "a")
    return made


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    return run_jobs(planned(folder).jobs, 1, Quiet())


def test_every_training_and_baseline_is_scored(folder: Path, outcome: Outcome) -> None:
    assert outcome.done == 3
    assert [job.name for job in planned(folder).jobs if not job.missing] == [
        "bm25",
        "cross, seed 1",
        "cross, seed 2",
    ]


def test_a_training_that_fails_is_named_and_the_others_go_on(outcome: Outcome) -> None:
    assert set(outcome.failed) == {"broken, seed 1", "broken, seed 2"}
    assert "no encoder at" in outcome.failed["broken, seed 1"]


def test_tables_come_from_the_scores_alone(folder: Path, outcome: Outcome) -> None:
    made = report(planned(folder))
    (table,) = made.tables
    assert [row.label for row in table.blocks[0].rows] == ["cross", "bm25"]
    assert table.unfinished == ("broken",)
    assert "Seeds" in table.caption or "seeds 1, 2" in table.caption
    assert "broken, seed 1" in made.notes[0]
    page = made.page.read_text("utf-8")
    assert "Training curves" in page and page.count("<svg") == 6
    assert made.curves is not None and "var(--" not in made.curves.read_text("utf-8")


def test_what_is_finished_is_skipped(folder: Path, outcome: Outcome) -> None:
    finished = [job for job in planned(folder).jobs if not job.missing]
    watcher = Quiet()
    again = run_jobs(finished, 1, watcher)
    assert (again.done, again.skipped, watcher.began_with) == (0, 3, [])


def test_a_lost_score_is_made_again_without_training(folder: Path, outcome: Outcome) -> None:
    job = next(job for job in planned(folder).jobs if job.name == "cross, seed 1")
    path = job.scores / "held-out.npz"
    before, weights = path.read_bytes(), job.ranker / "weights.safetensors"
    trained = weights.stat().st_mtime_ns
    path.unlink()
    assert attempt(job, lambda _: None, lambda: False).kind == "done"
    assert weights.stat().st_mtime_ns == trained
    assert path.read_bytes() == before


def test_an_interrupted_training_goes_on(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes((folder / "a.jsonl").read_bytes())
    (tmp_path / "tiny").symlink_to(folder / "tiny")
    job = next(job for job in planned(tmp_path).jobs if job.name == "cross, seed 1")
    said: list[Report] = []
    assert attempt(job, said.append, lambda: len(said) > 1).kind == "stopped"
    assert (job.ranker / "training").is_dir() and job.missing
    assert attempt(job, said.append, lambda: False).kind == "done"
    assert not (job.ranker / "training").is_dir() and not job.missing
