"""A ranker by its name: packaged, or a checkpoint folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ranking.errors import RankerError
from ranking.rankers.bm25 import BM25, Bm25Ranker
from ranking.rankers.logistic import LOGISTIC, SUPPORT, LogisticRanker, packaged_logistic
from ranking.rankers.ranker import CHECKPOINT, Ranker
from ranking.rankers.sequence_classifier import OF_A_FOLDER as CROSS_ENCODER
from ranking.rankers.sequence_classifier import SequenceClassifierRanker
from ranking.rankers.similarity import OF_A_FOLDER, SIMILARITY, SimilarityRanker


def _open_neural(folder: Path) -> Ranker:
    # Imports torch.
    from ranking.rankers.neural import NeuralRanker

    return NeuralRanker.open(folder)


_PACKAGED: Mapping[str, Callable[[], Ranker]] = {
    LOGISTIC: packaged_logistic,
    SUPPORT: partial(packaged_logistic, SUPPORT),
    BM25: Bm25Ranker,
    SIMILARITY: SimilarityRanker,
}
_KINDS: Mapping[str, Callable[[Path], Ranker]] = {LOGISTIC: LogisticRanker.open, "neural": _open_neural}
"""Functions that open a checkpoint folder, by the `kind` of its `ranker.json`."""


def load_ranker(name: str) -> Ranker:
    """Make a ranker ready, packaged (`logistic`, `support`, `bm25`, `similarity`) or from a folder.

    `similarity:` and `classifier:` are followed by the folder of a sentence encoder and of a cross-encoder;
    any other name is the folder of a trained ranker.

    Raises:
        RankerError: It is unknown, or its checkpoint cannot be used.
        WeightsError: The weights of its encoder are not there.
    """
    if name in _PACKAGED:
        return _PACKAGED[name]()
    if name.startswith(OF_A_FOLDER):
        return SimilarityRanker.open(name.removeprefix(OF_A_FOLDER))
    if name.startswith(CROSS_ENCODER):
        return SequenceClassifierRanker(name.removeprefix(CROSS_ENCODER))
    folder = Path(name).expanduser()
    kind = _kind(name, folder / CHECKPOINT)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise RankerError(f"ranker {name}: unknown kind {kind!r} in {CHECKPOINT}; known: {', '.join(_KINDS)}")
    return _KINDS[kind](folder)


def name_with_identity(name: str, identity: str) -> str:
    """Requested name with its identity: `support` is a logistic ranker."""
    known = name in _PACKAGED and not identity.startswith(name)
    return f"{name}, {identity}" if known else identity


def located(name: str) -> str:
    """The unchanged name of a packaged ranker, or a folder's absolute path."""
    for prefix in (OF_A_FOLDER, CROSS_ENCODER):
        if name.startswith(prefix):
            model = Path(name.removeprefix(prefix)).expanduser()
            return f"{prefix}{model.resolve()}" if model.is_dir() else name
    folder = Path(name).expanduser()
    return str(folder.resolve()) if name not in _PACKAGED and folder.is_dir() else name


def examples_learned(folder: Path) -> int | None:
    """Number of training examples of the ranker in a folder; None if not recorded."""
    try:
        content = json.loads((folder / CHECKPOINT).read_bytes())
        count = content["learned_from" if content["kind"] == LOGISTIC else "data"]["examples"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return count if isinstance(count, int) and count > 0 else None


def _kind(name: str, path: Path) -> object:
    if not path.is_file():
        where = f"its folder has no {CHECKPOINT}" if path.parent.is_dir() else "folder not found"
        raise RankerError(
            f"ranker {name!r}: {where}; use {', '.join(_PACKAGED)}, {OF_A_FOLDER}FOLDER of a sentence"
            f" encoder, {CROSS_ENCODER}FOLDER of a cross-encoder, or the folder of a trained ranker"
        )
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RankerError(f"{path}: it is not JSON: {error}") from error
    return content.get("kind") if isinstance(content, dict) else None


_ENDS_A_NAME = re.compile("[:@]")


def gives_logits(ranker: str) -> bool:
    """Whether scores of a name or identity mean probabilities; BM25 and similarity only order sentences."""
    return _ENDS_A_NAME.split(ranker, maxsplit=1)[0] not in (BM25, SIMILARITY)
