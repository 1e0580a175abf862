"""The cells of an experiment that are rankers: their examples, trainings and stored scores."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cases.formats.json_lines import json_lines_named
from cases.texts import hash_order
from evals.errors import ExperimentError
from evals.experiments.definition import BASELINES, Experiment
from ranking.errors import RankerError
from ranking.examples import Example, data_sha256, split
from ranking.noise import NoiseSettings, add_noise
from ranking.rankers.bm25 import Bm25Ranker
from ranking.rankers.logistic import fit_logistic
from ranking.rankers.ranker import Ranker, Scores
from ranking.readers.evidence_inference import PROMPTS, EvidenceInferenceOptions
from ranking.readers.load import load_examples
from ranking.training.recipe import TrainingRecipe, load_training_recipe, override
from runs.execute.watcher import Watcher
from storage.files import write_atomically
from weights.registry import WeightsError

if TYPE_CHECKING:
    from ranking.training.loop import TrainingProgress

TUNING, HELD_OUT, NOISY = "tuning", "held-out", "held-out, noisy queries"
"""Names of sets of examples; each domain is one more, by its name."""

_SHARE, _SPLIT_SEED = 0.2, 42
"""A fifth of all groups is held out, and a fifth of the others is for tuning."""

Examples = tuple[Example, ...]
SetScores = Mapping[str, Sequence[Scores]]
"""Logits of each example, by the name of the set."""


@dataclass(frozen=True, slots=True)
class PlannedRanker:
    """One ranker with one seed.

    Attributes:
        seed: 0 for a baseline, which is the same at every seed.
        recipe: None for a baseline.
        folder: Its checkpoint.
    """

    name: str
    seed: int
    baseline: str | None
    recipe: TrainingRecipe | None
    folder: Path

    @property
    def title(self) -> str:
        return f"{self.name}, seed {self.seed}" if self.seed else self.name

    @property
    def scores_file(self) -> Path:
        return self.folder.with_suffix(".npz")


@dataclass(frozen=True, slots=True)
class RankerPlan:
    """All rankers of an experiment, and their examples.

    Attributes:
        rankers: In the order of the seeds, so that the tables of one seed are there early.
        train: Training examples, within the limit.
        sets: Scored examples by name; only `TUNING` is used for training or tuning.
        pretraining: For recipes that pre-train.
    """

    rankers: Sequence[PlannedRanker]
    train: Examples
    sets: Mapping[str, Examples]
    pretraining: Examples

    def identities(self) -> dict[str, dict[str, Any]]:
        """Values that may not change between two starts of an experiment, by cell."""
        data = [data_sha256(part) for part in (self.train, self.sets[TUNING], self.pretraining)]
        return {
            one.name: {
                "ranker": one.baseline
                if one.recipe is None
                else one.recipe.model_dump(mode="json", exclude={"seed"}),
                "data": data if one.recipe is not None and one.recipe.pretrain is not None else data[:2],
            }
            for one in self.rankers
        }

    def scores(self) -> dict[str, dict[int, SetScores]]:
        """Finished scores, by cell and seed.

        Raises:
            ExperimentError: Stored scores are damaged.
        """
        found: dict[str, dict[int, SetScores]] = {}
        for one in self.rankers:
            if (scores := _read_scores(one, self.sets)) is not None:
                found.setdefault(one.name, {})[one.seed] = scores
        return found

    @property
    def unfinished(self) -> list[str]:
        return [one.title for one in self.rankers if _read_scores(one, self.sets) is None]


def plan_rankers(experiment: Experiment, out: Path, limit: int | None) -> RankerPlan | None:
    """Read and split the examples of an experiment, and check every training recipe.

    Returns:
        None where no cell is a ranker.

    Raises:
        ExperimentError: No data are named, or too few.
        InputError: Data cannot be read.
        RankerError: A training recipe is wrong.
    """
    settings = experiment.rankers
    cells = {name: cell for name, cell in experiment.all_cells().items() if cell.ranker is not None}
    if not cells:
        return None
    if not settings.data:
        raise ExperimentError("rankers need labelled examples: give them, --data PATH")
    held_out, tuning, train = _parts(load_examples(settings.data), "--data")
    learned = _limited(train, settings.limit if limit is None else limit)
    # The split with which a training holds the very tuning part out.
    groups, others = ({one.group for one in part} for part in (tuning, learned))
    shared = {
        **settings.set,
        "split.held_out": len(groups) / (len(groups) + len(others)),
        "split.seed": _SPLIT_SEED,
    }
    recipes = {
        name: override(
            load_training_recipe(str(cell.ranker)), {**shared, **cell.set}, f"{cell.ranker} of cell {name}"
        )
        for name, cell in cells.items()
        if cell.ranker not in BASELINES
    }
    sets = {TUNING: tuning, HELD_OUT: held_out}
    if "abridge-5" in experiment.tables:
        sets[NOISY] = tuple(add_noise(held_out, NoiseSettings(), _SPLIT_SEED))
    domains = settings.domains if "abridge-3" in experiment.tables else {}
    pretrains = any(recipe.pretrain is not None for recipe in recipes.values())
    if (domains or pretrains) and not settings.pretrain:
        raise ExperimentError("rankers need a second data set: give it, --pretrain PATH")
    reported: set[str] = set()
    for name, domain in domains.items():
        of_domain, _, _ = _parts(_read_others(settings.pretrain, domain.window), name)
        reported |= {one.group for one in of_domain}
        sets[name] = _limited(of_domain, domain.limit)
    pretraining: Examples = ()
    if pretrains:
        # Which groups are held out differs with the window.
        usable = _with_evidence(_read_others(settings.pretrain, settings.pretraining.window))
        unseen = tuple(one for one in usable if one.group not in reported)
        pretraining = _limited(unseen, settings.pretraining.limit)
    return RankerPlan(
        rankers=[
            PlannedRanker(
                name,
                seed,
                None if name in recipes else cell.ranker,
                recipes[name].model_copy(update={"seed": seed}) if name in recipes else None,
                out / "cells" / name / f"seed-{seed}",
            )
            for seed in (0, *settings.seeds)
            for name, cell in cells.items()
            if (seed == 0) == (name not in recipes)
        ],
        train=learned,
        sets=sets,
        pretraining=pretraining,
    )


async def train_rankers(plan: RankerPlan, *, stop: asyncio.Event, watcher: Watcher) -> dict[str, str]:
    """Train each ranker, or go on with it, and score it; those that are finished stay as they are.

    One that cannot be trained does not end the others: its reason is returned, by its title.
    """
    failed = {}
    loop = asyncio.get_running_loop()

    def notify(text: str) -> None:
        loop.call_soon_threadsafe(watcher.notify, text)

    for number, one in enumerate(plan.rankers, 1):
        if stop.is_set():
            break
        if _read_scores(one, plan.sets) is not None:
            continue
        watcher.notify(f"ranker {number} of {len(plan.rankers)}: {one.title}")
        try:
            await asyncio.to_thread(_train_and_score, one, plan, _Epochs(one.title, notify), stop.is_set)
        except (RankerError, WeightsError) as error:
            if not stop.is_set():
                failed[one.title] = " ".join(str(error).split())
                watcher.notify(f"{one.title} failed: {failed[one.title]}")
    return failed


class _Epochs:
    """Reports each epoch of a training, which runs in its own thread."""

    def __init__(self, title: str, notify: Callable[[str], object]) -> None:
        self._title, self._notify = title, notify
        self._last: tuple[str, int] | None = None

    def update(self, progress: TrainingProgress) -> None:
        if self._last != (progress.phase, progress.epoch):
            self._last = (progress.phase, progress.epoch)
            self.notify(f"{progress.phase} epoch {progress.epoch} of {progress.epochs}")

    def notify(self, text: str) -> None:
        self._notify(f"{self._title}: {text}")


def _train_and_score(
    one: PlannedRanker, plan: RankerPlan, watcher: _Epochs, stopping: Callable[[], bool]
) -> None:
    ranker = _ranker(one, plan, watcher, stopping)
    scores: dict[str, Any] = {}
    for examples in plan.sets.values():
        logits = [ranker.rank(example.query, example.sentences).scores for example in examples]
        scores[data_sha256(examples)] = np.concatenate(logits).astype(np.float32)
    written = io.BytesIO()
    np.savez_compressed(written, **scores)
    one.folder.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(one.scores_file, [written.getvalue()])


def _ranker(one: PlannedRanker, plan: RankerPlan, watcher: _Epochs, stopping: Callable[[], bool]) -> Ranker:
    if one.recipe is None:
        return Bm25Ranker() if one.baseline == "bm25" else fit_logistic(plan.train)
    from ranking.rankers.neural import NeuralRanker
    from ranking.rankers.ranker import CHECKPOINT
    from ranking.training.job import WORKPLACE, TrainingData, TrainingJob
    from ranking.training.train import train

    if not (one.folder / CHECKPOINT).is_file():
        begun = (one.folder / WORKPLACE / "job.json").is_file()
        if not begun:
            # Left by a process that died before its training began.
            shutil.rmtree(one.folder, ignore_errors=True)
        train(
            TrainingJob(name=one.name, recipe=one.recipe),
            TrainingData(
                [*plan.train, *plan.sets[TUNING]],
                plan.pretraining if one.recipe.pretrain is not None else (),
            ),
            one.folder,
            resume=begun,
            watcher=watcher,
            stopping=stopping,
        )
    # As the training multiplied, and twice as fast.
    return NeuralRanker.open(one.folder, one.recipe.precision)


def _read_scores(one: PlannedRanker, sets: Mapping[str, Examples]) -> SetScores | None:
    """Its scores of every set, which are stored by the digest of the set; None where some are missing."""
    path = one.scores_file
    if not path.is_file():
        return None
    found = {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            for name, examples in sets.items():
                digest = data_sha256(examples)
                if digest not in stored.files:
                    return None
                ends = np.cumsum([len(example.sentences) for example in examples])
                found[name] = np.split(stored[digest], ends[:-1])
    except Exception as error:
        # Errors of several libraries, on a file that was cut or changed.
        raise ExperimentError(f"{path}: cannot be read: {error}. Remove it and start again") from None
    return found


def _parts(examples: Sequence[Example], name: str) -> tuple[Examples, ...]:
    """Held out, tuning, training: groups of examples, the same for all rankers and seeds."""
    try:
        rest, held_out = split(_with_evidence(examples), _SHARE, _SPLIT_SEED)
        train, tuning = split(rest, _SHARE, _SPLIT_SEED)
    except ValueError as error:
        raise ExperimentError(f"{name}: {error}; give more examples") from None
    return tuple(held_out), tuple(tuning), tuple(train)


def _with_evidence(examples: Iterable[Example]) -> Examples:
    """A ranking of one sentence says nothing, and without evidence there is nothing to find."""
    return tuple(one for one in examples if one.labels and any(one.labels) and len(one.labels) > 1)


def _limited(examples: Examples, limit: int | None) -> Examples:
    """A choice that depends on ids alone, in the order of the examples."""
    if limit is None or len(examples) <= limit:
        return examples
    ids = {one.id for one in hash_order(examples, lambda one: json.dumps(one.id))[:limit]}
    return tuple(one for one in examples if one.id in ids)


def _read_others(paths: Sequence[Path], window: int | None) -> list[Example]:
    """Examples of the second data set; articles of Evidence Inference are shortened to the window."""
    found: list[Example] = []
    for path in paths:
        options = None
        if path.is_dir() and json_lines_named(path, PROMPTS):
            part = "abstract" if window is None else "article"
            options = EvidenceInferenceOptions(part=part, max_sentences=window)
        found += load_examples([path], options)
    return found
