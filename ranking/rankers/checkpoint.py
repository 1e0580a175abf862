"""A trained ranker is a folder: it can be moved, and opens without the encoder that it was trained from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from cases.definitions import Section
from cases.texts import quoted
from ranking.cutoffs import Cutoff
from ranking.encoding.encoders import Encoder, load_encoder
from ranking.errors import RankerError
from ranking.models.fusions import build_model
from ranking.rankers.ranker import CHECKPOINT
from ranking.training.recipe import TrainingRecipe
from ranking.training.validation import Validation
from storage.files import file_sha256, json_bytes, write_atomically

if TYPE_CHECKING:
    from torch import nn

    from ranking.models.model import EvidenceModel

WEIGHTS = "weights.safetensors"
ENCODER = "encoder"
CURVE = "curve.jsonl"
FORMAT = 1


class DataRecord(Section):
    """Training data of a ranker; names only, since a path may disclose more than it should.

    Attributes:
        sources: Names of the files or folders.
        sha256: Of all examples, training and held out.
        no_loss: Examples left out because the objective learns nothing from them.
        unlabelled: Examples left out because they have no labels.
        cut_sentences: Sentences over the limit of tokens, of which the end was not read.
        cut_queries: Queries over it.
        shortened: Documents of which not every sentence without evidence was read.
    """

    sources: tuple[str, ...]
    sha256: str
    examples: int
    documents: int
    evidence: int
    sentences: int
    no_loss: int = 0
    unlabelled: int = 0
    cut_sentences: int = 0
    cut_queries: int = 0
    shortened: int = 0


class SplitRecord(Section):
    """Examples used to tune the cut-off.

    Attributes:
        groups_sha256: Of the sorted names of the held-out groups.
        examples: Of these groups, with gold labels.
    """

    name: str
    share: float
    seed: int
    groups_sha256: str
    groups: int
    examples: int


class EncoderRecord(Section):
    """The backbone before training: its name, and the fingerprint of its weights."""

    name: str
    fingerprint: str


class RankerManifest(Section):
    """`ranker.json`, whose presence says that the folder is complete.

    Attributes:
        cutoff: What turns scores into a selection.
        held_out: Figures and cut-offs of the best epoch. The epoch and the cut-offs were chosen on these very
            examples; only the F1 of a rule leaves out the case that it selects in.
    """

    kind: Literal["neural"] = "neural"
    format: int = FORMAT
    name: str
    recipe: TrainingRecipe
    cutoff: Cutoff
    held_out: Validation
    split: SplitRecord
    data: DataRecord
    pretraining: DataRecord | None = None
    encoder: EncoderRecord
    precision: str
    weights_sha256: str
    versions: dict[str, str] = Field(default_factory=dict)
    history: tuple[str, ...] = ()


def save_checkpoint(
    folder: Path,
    manifest: RankerManifest,
    model: EvidenceModel[Any],
    encoder: Encoder,
    curve: list[dict[str, Any]],
) -> RankerManifest:
    """Write a folder; the manifest comes last, so a process that dies leaves none that looks complete.

    Returns:
        The manifest with the hash of the weights.

    Raises:
        OSError: The disk is full, say.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _save_encoder(folder / ENCODER, encoder)
    save_weights(folder / WEIGHTS, model)
    write_atomically(folder / CURVE, (json_bytes(point) for point in curve))
    written = manifest.model_copy(update={"weights_sha256": file_sha256(folder / WEIGHTS)})
    write_atomically(folder / CHECKPOINT, [json_bytes(written.model_dump(mode="json"), indent=2)])
    return written


def read_manifest(folder: Path) -> RankerManifest:
    """Read `ranker.json`.

    Raises:
        RankerError: The folder holds no neural ranker, an unfinished one, or one of another version.
    """
    path = folder / CHECKPOINT
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RankerError(f"{folder}: {_not_a_ranker(folder)}") from None
    except (OSError, ValueError) as error:
        raise RankerError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict) or values.get("kind") != "neural":
        raise RankerError(f"{path}: it describes no neural ranker")
    if values.get("format") != FORMAT:
        raise RankerError(
            f"{path}: written in format {values.get('format')!r}, this version reads {FORMAT}: train it anew,"
            " or install the version that wrote it"
        )
    try:
        return RankerManifest.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RankerError(f"{path}: {place}: {first['msg']}") from None


def read_split(folder: Path) -> SplitRecord:
    """Read the held-out examples of a ranker's training.

    Raises:
        RankerError: No such record is in the folder.
    """
    try:
        return SplitRecord.model_validate(json.loads((folder / CHECKPOINT).read_bytes())["split"])
    except (OSError, ValueError, KeyError, TypeError):
        raise RankerError(
            f"ranker {str(folder)!r}: no held-out examples are recorded of it (no split in its {CHECKPOINT});"
            " take --split all"
        ) from None


def open_checkpoint(folder: Path) -> tuple[RankerManifest, EvidenceModel[Any], Encoder]:
    """Read the manifest and build the model with its weights, in evaluation mode.

    Raises:
        RankerError: A file is missing or damaged, or the weights are of another backbone.
        WeightsError: The encoder's folder is damaged.
    """
    manifest = read_manifest(folder)
    for name in (WEIGHTS, f"{ENCODER}/config.json"):
        if not (folder / name).is_file():
            raise RankerError(f"{folder}: {name} is missing; copy the whole folder again, or train it anew")
    if file_sha256(folder / WEIGHTS) != manifest.weights_sha256:
        raise RankerError(
            f"{folder / WEIGHTS}: not the weights that {CHECKPOINT} is about; copy the whole folder again,"
            " or train it anew"
        )
    encoder = load_encoder(folder / ENCODER, weights=False)
    vocabularies = encoder.tokenizer.vocab_files_names.values()
    if vocabularies and not any((folder / ENCODER / name).is_file() for name in vocabularies):
        # Without one transformers makes a tokenizer that knows no word, and scores would say nothing.
        raise RankerError(
            f"{folder}: {ENCODER} has no vocabulary ({' or '.join(vocabularies)}); copy the whole folder"
            " again, or train it anew"
        )
    try:
        model = build_model(manifest.recipe.model, encoder)
    except ValueError as error:
        raise RankerError(f"{folder}: {error}") from None
    load_weights(folder / WEIGHTS, model)
    model.eval()
    return manifest, model, encoder


def save_weights(path: Path, model: nn.Module) -> None:
    """Write all parameters and buffers; `path` holds its old content or all of the new one."""
    from safetensors.torch import save

    # Clones, since safetensors refuses tensors that share memory, as tied weights do.
    tensors = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    # Not by its `save_file`, whose files only their owner may read.
    write_atomically(path, [save({name: tensor.contiguous() for name, tensor in tensors.items()})])


def load_weights(path: Path, model: nn.Module) -> None:
    """Put weights into a model of the same architecture.

    Raises:
        RankerError: The file is damaged, or is of another architecture or backbone.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise RankerError(f"{path}: cannot be read as weights: {error}") from error
    own = model.state_dict()
    for name, tensor in own.items():
        if name not in tensors:
            raise RankerError(f"{path}: it has no {name!r}, so it is of another model or backbone")
        if tensors[name].shape != tensor.shape:
            raise RankerError(
                f"{path}: {name} has shape {tuple(tensors[name].shape)}, the model wants"
                f" {tuple(tensor.shape)}: the weights are of another backbone"
            )
    for name in tensors:
        if name not in own:
            raise RankerError(f"{path}: the model has no {name!r}, so the weights are of another model")
    model.load_state_dict(tensors)


def _save_encoder(folder: Path, encoder: Encoder) -> None:
    """Configuration and tokenizer; the weights are those of the whole model."""
    workplace = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(workplace, ignore_errors=True)
    workplace.mkdir()
    encoder.model.config.save_pretrained(workplace)  # type: ignore[operator,union-attr]
    encoder.tokenizer.save_pretrained(workplace)
    shutil.rmtree(folder, ignore_errors=True)
    workplace.rename(folder)


def _not_a_ranker(folder: Path) -> str:
    if not folder.is_dir():
        return "no such folder"
    if (folder / "training").is_dir():
        return f"its training has not ended: evigraph train --resume {quoted(folder)}"
    return f"it lacks {CHECKPOINT}, so it is not a trained ranker"
