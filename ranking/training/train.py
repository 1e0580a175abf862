"""From examples and a recipe to a folder with a trained ranker."""

from __future__ import annotations

import platform
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cases.texts import plural, quoted
from ranking.encoding.device import choose_placement, resolve_precision
from ranking.encoding.encoders import Encoder, encoder_folder, load_encoder
from ranking.errors import RankerError
from ranking.examples import Example, Split, data_sha256, groups_sha256, labelled_by_id, split
from ranking.models.fusions import build_model
from ranking.noise import add_noise
from ranking.rankers.checkpoint import (
    DataRecord,
    EncoderRecord,
    RankerManifest,
    SplitRecord,
    load_weights,
    save_checkpoint,
)
from ranking.training.documents import Prepared, prepare
from ranking.training.job import (
    WORKPLACE,
    TrainingData,
    TrainingJob,
    alone,
    read_job,
    require_same,
    write_job,
)
from ranking.training.loop import (
    BEST,
    Phase,
    PhasePlan,
    Session,
    SilentWatcher,
    TrainingDiverged,
    TrainingInterrupted,
    TrainingWatcher,
    gives_loss,
    run_phase,
)
from ranking.training.losses import balanced_pos_weight
from ranking.training.recipe import ObjectiveSettings, Pretraining, TrainingRecipe
from ranking.training.state import Position, read_position
from ranking.training.validation import validate
from weights.registry import fingerprint

if TYPE_CHECKING:
    from ranking.models.model import EvidenceModel

_LIBRARIES = ("torch", "transformers", "numpy")


@dataclass(frozen=True, slots=True)
class _Part:
    """A phase's data, ready for the loop, and its record."""

    prepared: Prepared
    record: DataRecord
    objective: ObjectiveSettings


def train(
    job: TrainingJob,
    data: TrainingData,
    folder: Path,
    *,
    resume: bool = False,
    watcher: TrainingWatcher | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> RankerManifest:
    """Train a ranker and write it to a folder.

    On one processor the same job gives the same weights, interrupted and resumed or not. The folder is new or
    empty, or of an interrupted training to resume; `stopping` is asked after every step.

    Raises:
        RankerError: The data do not do for the recipe, or the folder is not the job's.
        TrainingInterrupted: `stopping` returned True; the folder can be resumed.
        TrainingDiverged: A loss was not finite; the ranker of the best epoch before, if any, is there.
        WeightsError: The encoder cannot be loaded.
    """
    job = job.model_copy(update={"data_sha256": data.sha256})
    if resume:
        require_same(folder, read_job(folder), job)
    recipe = job.recipe
    divided = _split(data.examples, recipe)
    path = encoder_folder(recipe.model.encoder)
    encoder = load_encoder(path)
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        model = _build(recipe, encoder)
        parts = _parts(job, data, divided, encoder)
        held_out = prepare(divided.held_out, encoder.tokenizer, recipe.model)
        if not resume:
            write_job(folder, job)
        with alone(folder):
            position = read_position(folder / WORKPLACE) if resume else None
            device = choose_placement().device
            session = Session(
                recipe=recipe,
                device=device,
                precision=resolve_precision(recipe.precision, device),
                folder=folder / WORKPLACE,
                position=position or Position(),
                resumed=position is not None,
                watcher=watcher or SilentWatcher(),
                stopping=stopping,
            )
            _notify(session.watcher, parts, held_out)
            validation = partial(
                validate,
                documents=held_out.documents,
                rule=recipe.cutoff,
                max_pairs=recipe.max_pairs,
                precision=session.precision,
            )
            try:
                model = _learn(session, parts, model.to(device), encoder, validation)
            except TrainingInterrupted:
                raise TrainingInterrupted(
                    f"interrupted; go on with evigraph train --resume {quoted(folder)}"
                ) from None
            except TrainingDiverged as error:
                if session.position.best is None:
                    raise
                manifest = _manifest(job, parts, divided, path, session, history=(str(error),))
                _finish(folder, manifest, model, encoder, session)
                raise TrainingDiverged(
                    f"{error}. The ranker of epoch {manifest.held_out.epoch} is in {folder}"
                ) from None
            manifest = _manifest(job, parts, divided, path, session)
            return _finish(folder, manifest, model, encoder, session)


def _split(examples: Sequence[Example], recipe: TrainingRecipe) -> Split:
    labelled = labelled_by_id(examples)
    if not labelled:
        raise RankerError(
            f"none of {plural(len(examples), 'example')} has labels: there is nothing to learn from"
        )
    try:
        divided = split(labelled, recipe.split.held_out, recipe.split.seed)
    except ValueError as error:
        raise RankerError(f"cannot hold {recipe.split.held_out:.0%} of the examples out: {error}") from None
    if len(divided.held_out) < 2:
        raise RankerError(
            "one held-out example is too few to tune a cut-off: hold more out, or give more data"
        )
    return divided


def _build(recipe: TrainingRecipe, encoder: Encoder) -> EvidenceModel[Any]:
    try:
        model = build_model(recipe.model, encoder)
    except ValueError as error:
        raise RankerError(f"model: {error}") from None
    return model


def _parts(job: TrainingJob, data: TrainingData, divided: Split, encoder: Encoder) -> dict[Phase, _Part]:
    recipe = job.recipe
    parts: dict[Phase, _Part] = {}
    if recipe.pretrain is not None:
        chosen = _chosen(data.pretraining, recipe.pretrain, recipe.seed)
        settings = ObjectiveSettings(objective="pointwise")
        parts["pretrain"] = _part(chosen, settings, recipe, encoder, recipe.pretrain.data)
    examples = divided.train
    if recipe.noise is not None:
        try:
            examples = add_noise(examples, recipe.noise, recipe.seed)
        except ValueError as error:
            raise RankerError(f"noise: {error}") from None
    part = _part(examples, recipe.objective, recipe, encoder, job.data)
    unlabelled = sum(example.labels is None for example in data.examples)
    record = part.record.model_copy(update={"unlabelled": unlabelled, "sha256": data_sha256(data.examples)})
    parts["train"] = _Part(part.prepared, record, part.objective)
    return parts


def _chosen(examples: Sequence[Example], settings: Pretraining, seed: int) -> list[Example]:
    """Examples with evidence: an unanswerable question does not show where an answer would be."""
    answered = sorted((one for one in examples if any(one.labels or ())), key=lambda one: one.id)
    if not answered:
        raise RankerError(
            f"none of {plural(len(examples), 'example')} for pre-training has evidence: check pretrain.data"
        )
    if settings.max_examples is None or len(answered) <= settings.max_examples:
        return answered
    return random.Random(seed).sample(answered, settings.max_examples)  # noqa: S311


def _part(
    examples: Sequence[Example],
    objective: ObjectiveSettings,
    recipe: TrainingRecipe,
    encoder: Encoder,
    sources: Sequence[str],
) -> _Part:
    try:
        balanced = balanced_pos_weight(examples)
    except ValueError as error:
        raise RankerError(f"the training examples cannot be learned from: {error}") from None
    weights = {"auto": balanced, "off": 1.0}
    weight = weights[recipe.pos_weight] if isinstance(recipe.pos_weight, str) else recipe.pos_weight
    objective = objective.model_copy(update={"pos_weight": weight})
    learnable = [one for one in examples if one.labels and gives_loss(one.labels, objective)]
    if not learnable:
        raise RankerError(f"no training example gives a loss under the objective {objective.objective!r}")
    prepared = prepare(
        learnable,
        encoder.tokenizer,
        recipe.model,
        max_sentences=recipe.max_sentences,
        seed=recipe.seed,
    )
    labels = [label for example in learnable for label in example.labels or ()]
    record = DataRecord(
        sources=tuple(Path(source).name for source in sources),
        sha256=data_sha256(examples),
        examples=len(learnable),
        documents=len(prepared.documents),
        evidence=sum(labels),
        sentences=len(labels),
        no_loss=len(examples) - len(learnable),
        cut_sentences=prepared.cut_sentences,
        cut_queries=prepared.cut_queries,
        shortened=prepared.shortened,
    )
    return _Part(prepared, record, objective)


def _learn(
    session: Session,
    parts: dict[Phase, _Part],
    model: EvidenceModel[Any],
    encoder: Encoder,
    validation: Callable[..., Any],
) -> EvidenceModel[Any]:
    """Run the phases that are left; the model returned has the weights of the last step."""
    recipe, position = session.recipe, session.position
    for number, (name, part) in enumerate(parts.items()):
        if number < position.phase:
            continue
        if name == "pretrain":
            assert recipe.pretrain is not None
            plan = PhasePlan(name, part.prepared.documents, recipe.pretrain.epochs, part.objective)
        else:
            plan = PhasePlan(name, part.prepared.documents, recipe.epochs, part.objective, validation)
        run_phase(session, plan, model)
        position.phase, position.epoch = number + 1, 0
        if name == "pretrain" and recipe.pretrain is not None and recipe.pretrain.head == "fresh":
            # The backbone is the same object, with its learned weights.
            model = _build(recipe, encoder).to(session.device)
    return model


def _finish(
    folder: Path,
    manifest: RankerManifest,
    model: EvidenceModel[Any],
    encoder: Encoder,
    session: Session,
) -> RankerManifest:
    load_weights(session.folder / BEST, model)
    written = save_checkpoint(folder, manifest, model, encoder, session.position.curve)
    shutil.rmtree(session.folder, ignore_errors=True)
    return written


def _manifest(
    job: TrainingJob,
    parts: dict[Phase, _Part],
    divided: Split,
    encoder: Path,
    session: Session,
    history: tuple[str, ...] = (),
) -> RankerManifest:
    recipe, best = job.recipe, session.position.best
    assert best is not None
    pretraining = parts.get("pretrain")
    return RankerManifest(
        name=job.name,
        recipe=_without_paths(recipe),
        cutoff=best.cutoff,
        held_out=best,
        split=SplitRecord(
            name="held_out",
            share=recipe.split.held_out,
            seed=recipe.split.seed,
            groups_sha256=groups_sha256(divided.held_out),
            groups=len({example.group for example in divided.held_out}),
            examples=len(divided.held_out),
        ),
        data=parts["train"].record,
        pretraining=None if pretraining is None else pretraining.record,
        encoder=EncoderRecord(name=Path(recipe.model.encoder).name, fingerprint=fingerprint(encoder)),
        precision=session.precision,
        weights_sha256="",
        versions={
            "python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
        history=history,
    )


def _without_paths(recipe: TrainingRecipe) -> TrainingRecipe:
    """Paths of the machine stay out of a ranker that is passed on."""
    model = recipe.model.model_copy(update={"encoder": Path(recipe.model.encoder).name})
    pretrain = recipe.pretrain
    if pretrain is not None:
        pretrain = pretrain.model_copy(update={"data": tuple(Path(path).name for path in pretrain.data)})
    return recipe.model_copy(update={"model": model, "pretrain": pretrain})


def _notify(watcher: TrainingWatcher, parts: dict[Phase, _Part], held_out: Prepared) -> None:
    for name, part in parts.items():
        record = part.record
        line = (
            f"{name}: {plural(record.examples, 'example')} on {plural(record.documents, 'document')},"
            f" {record.evidence} of {plural(record.sentences, 'sentence')} are evidence"
        )
        losses = {
            "examples without labels left out": record.unlabelled,
            "examples left out without a loss": record.no_loss,
            "sentences over the limit read in part": record.cut_sentences,
            "queries over the limit read in part": record.cut_queries,
            "long documents without some of their other sentences": record.shortened,
        }
        watcher.notify("; ".join([line, *(f"{count} {what}" for what, count in losses.items() if count)]))
    if held_out.cut_sentences or held_out.cut_queries:
        watcher.notify(
            f"held out: {plural(held_out.cut_sentences, 'sentence')} and"
            f" {plural(held_out.cut_queries, 'query')} over the limit read in part"
        )
