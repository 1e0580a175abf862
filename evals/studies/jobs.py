"""What a study has to train and to score: one job for each row and seed, equal rows once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases.files import json_bytes, write_atomically
from evals.studies.data import TUNING, Examples, StudyData, training_part
from evals.studies.definition import Baseline, Row, Study
from evals.studies.errors import StudyError
from evals.studies.measures import labelled_cases, write_cases
from ranking.examples import data_sha256
from ranking.training.recipe import TrainingRecipe, load_training_recipe, override

PLAN = "study.json"
_RANDOM_LIKE = ("random",)


@dataclass(frozen=True, slots=True)
class Job:
    """One ranker: trained or made, then scored on every set.

    Attributes:
        recipe: Of a training; None for a baseline.
        train: Examples without those of `tuning`.
        sets: What it is scored on, by name, the tuning set among them.
        ranker: Folder of its checkpoint.
        scores: Folder of its scores.
    """

    row: str
    seed: int
    baseline: Baseline | None
    recipe: TrainingRecipe | None
    train: Examples
    tuning: Examples
    pretraining: Examples
    sets: Mapping[str, Examples]
    ranker: Path
    scores: Path

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.row}, seed {self.seed}" if self.seed else self.row

    @property
    def missing(self) -> list[str]:
        """Sets that it has no scores on yet; of a finished job none."""
        return [name for name in self.sets if not scores_file(self.scores, name).is_file()]


@dataclass(frozen=True, slots=True)
class Plan:
    """A study ready to run.

    Attributes:
        jobs: In the order of the seeds, so that the tables of one seed are there early.
        owner: Of each row, the row whose jobs it shares: itself, or an earlier one that is equal.
        counts: Examples by the name of a part or set.
        trained_on: Examples that each trained row learns from, pre-training not counted.
        seen_documents: Held-out examples whose document some training example has too.
    """

    study: Study
    out: Path
    jobs: tuple[Job, ...]
    owner: Mapping[str, str]
    counts: Mapping[str, int]
    trained_on: Mapping[str, int]
    seen_documents: int


def scores_file(folder: Path, name: str) -> Path:
    """Where the scores on a set are, in a job's folder of scores."""
    return folder / f"{name}.npz"


def job_folders(out: Path, row: str, seed: int) -> tuple[Path, Path]:
    """A job's checkpoint and its scores."""
    place = Path(row) / f"seed-{seed}"
    return out / "rankers" / place, out / "scores" / place


def row_seeds(study: Study, row: Row) -> tuple[int, ...]:
    """A row is made once with each; baselines without chance once, as seed 0."""
    return (0,) if row.baseline is not None and row.baseline not in _RANDOM_LIKE else study.seeds


def plan(study: Study, data: StudyData, out: Path) -> Plan:
    """Check every recipe, compare the study with what its folder has, and write the cases of its sets.

    Raises:
        RankerError: A recipe is wrong.
        StudyError: A row or a set is not what it was when the study began.
        InputError: The folder cannot be written.
    """
    sets = {TUNING: data.tuning, **data.sets}
    made: dict[str, tuple[str, dict[int, Job]]] = {}
    owner: dict[str, str] = {}
    identities: dict[str, str] = {}
    trained_on: dict[str, int] = {}
    for name, row in study.rows.items():
        train, tuning = training_part(data, study, row)
        recipe = None if row.baseline is not None else _recipe(study, row, name, train, tuning)
        pretraining = data.pretraining if row.pretrain else ()
        identity = _identity(row, recipe, train, tuning, pretraining)
        identities[name] = identity
        trained_on[name] = len(train)
        owner[name] = next((other for other, known in identities.items() if known == identity), name)
        if owner[name] == name:
            made[name] = (
                name,
                {
                    seed: Job(
                        row=name,
                        seed=seed,
                        baseline=row.baseline,
                        recipe=None if recipe is None else recipe.model_copy(update={"seed": seed}),
                        train=train,
                        tuning=tuning,
                        pretraining=pretraining,
                        sets={**sets, TUNING: tuning},
                        ranker=job_folders(out, name, seed)[0],
                        scores=job_folders(out, name, seed)[1],
                    )
                    for seed in row_seeds(study, row)
                },
            )
    _keep(out / PLAN, identities, {name: data_sha256(examples) for name, examples in sets.items()})
    for name, examples in sets.items():
        write_cases(cases_file(out, name), labelled_cases(examples))
    seeds = (0, *study.seeds)
    documents = {one.document_id for one in (*data.train, *data.tuning)}
    return Plan(
        study=study,
        out=out,
        jobs=tuple(jobs[seed] for seed in seeds for _, jobs in made.values() if seed in jobs),
        owner=owner,
        counts={"train": len(data.train), **{name: len(examples) for name, examples in sets.items()}},
        trained_on=trained_on,
        seen_documents=sum(one.document_id in documents for one in data.sets["held-out"]),
    )


def cases_file(out: Path, name: str) -> Path:
    """Where the labels of a set are."""
    return out / "sets" / f"{name}.jsonl"


def _recipe(study: Study, row: Row, name: str, train: Examples, tuning: Examples) -> TrainingRecipe:
    """The row's values, and a split that gives the very tuning part of the study."""
    held_out, kept = ({one.group for one in part} for part in (tuning, train))
    split = {
        "split.held_out": len(held_out) / (len(held_out) + len(kept)),
        "split.seed": study.split.seed,
    }
    origin = row.recipe or study.recipe
    settings = study.pretraining
    pretrain: dict[str, Any] = {}
    if row.pretrain:
        pretrain = {"pretrain.epochs": settings.epochs, "pretrain.head": settings.head}
    changes = {**study.set, **row.set, **split, **pretrain}
    return override(load_training_recipe(origin), changes, f"{origin} of row {name}")


def _identity(
    row: Row, recipe: TrainingRecipe | None, train: Examples, tuning: Examples, pretraining: Examples
) -> str:
    shaping = {
        "baseline": row.baseline,
        # The seed is that of the folder.
        "recipe": None if recipe is None else recipe.model_dump(mode="json", exclude={"seed"}),
        "data": [data_sha256(part) for part in (train, tuning, pretraining)],
    }
    return hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()


def _keep(path: Path, rows: Mapping[str, str], sets: Mapping[str, str]) -> None:
    """New rows and sets may join; those that are there must stay what they were."""
    path.parent.mkdir(parents=True, exist_ok=True)
    recorded: dict[str, dict[str, str]] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    current = {"rows": rows, "sets": sets}
    for kind, known in current.items():
        before = recorded.get(kind, {})
        changed = [name for name in known if name in before and before[name] != known[name]]
        if changed:
            raise StudyError(
                f"{path.parent}: {kind} changed since this study began: {_some(changed)}. Undo the change of"
                " study, data or limit, rename the rows, or give another --out"
            )
    merged = {kind: {**recorded.get(kind, {}), **known} for kind, known in current.items()}
    write_atomically(path, [json_bytes(merged, indent=2)])


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
