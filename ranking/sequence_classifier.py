"""A cross-encoder from a folder: a sequence classifier with one logit, such as ms-marco-MiniLM-L12.

Question and passage are one input, so each passage is read with the question in mind; it is the reranker of
Verma et al. 2025, section 3.2.1. Any model of transformers serves that has one label.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cases.texts import plural
from ranking.cutoffs import Cutoff, TopK
from ranking.device import Placement, autocast, choose_placement
from ranking.errors import RankerError
from ranking.ranker import Ranked
from weights.loading import is_long, loading, no_progress_bars, readable, stay_offline
from weights.registry import WeightsError, fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_ENDLESS = 1_000_000
"""Tokenizers without a limit of their own give a number above this."""


def read_config(folder: Path, origin: str, remedy: str) -> Mapping[str, Any]:
    """A model's configuration, without its weights.

    Args:
        folder: Of the model.
        origin: Whose it is, for messages.
        remedy: What to give in its place.

    Raises:
        RankerError: There is none.
    """
    path = folder / "config.json"
    if not path.is_file():
        where = "its folder has no config.json" if folder.is_dir() else "there is no such folder"
        raise RankerError(f"{origin}: {where}; {remedy}")
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RankerError(f"{path}: it is no JSON: {error}") from error
    return content if isinstance(content, dict) else {}


def load_classifier(folder: Path) -> tuple[PreTrainedTokenizerBase, Any]:
    """Tokenizer and model, ready to be asked, from the folder alone.

    Raises:
        WeightsError: The folder is damaged.
    """
    with loading(f"the classifier {folder.name}"):
        stay_offline()
        from safetensors import SafetensorError
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        try:
            with no_progress_bars():
                tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
                model = AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise WeightsError(f"{folder}: cannot be loaded as a classifier: {error}") from error
        return tokenizer, model.eval()


def token_limit(tokenizer: PreTrainedTokenizerBase, config: Any, most: int) -> int:
    """Tokens of a pair that fit, at most `most`; some models count two positions more than they can hold."""
    limits = [most]
    if tokenizer.model_max_length < _ENDLESS:
        limits.append(int(tokenizer.model_max_length))
    positions = getattr(config, "max_position_embeddings", None)
    relative = getattr(config, "relative_attention", False)
    if isinstance(positions, int) and positions > 0 and not relative:
        padded = getattr(config, "model_type", "") in ("roberta", "xlm-roberta", "camembert")
        limits.append(positions - 2 if padded else positions)
    return min(limits)


CLASSIFIER = "classifier"

OF_A_FOLDER = f"{CLASSIFIER}:"
"""Before the folder of a cross-encoder."""

MAX_TOKENS = 512
"""Of question and passage together; models with fewer positions take those."""

_BATCH = 32
_BATCH_ON_GPU = 256


class _Loaded(NamedTuple):
    tokenizer: Any
    model: Any
    placement: Placement
    limit: int


class SequenceClassifierRanker:
    """Scores are the model's logits. Loaded at the first passage; one batch runs at a time.

    Where question and passage together are too long, the longer one gives way: nearly always the passage.
    """

    def __init__(self, folder: str | Path, cutoff: Cutoff | None = None) -> None:
        """Check the folder; its best three sentences are selected unless a rule is given.

        Args:
            folder: Of a transformers model, with its config.json, tokenizer and weights.
            cutoff: What turns scores into a selection; models from elsewhere come without one.

        Raises:
            RankerError: It holds no model, or one with more than one label.
        """
        self.cutoff: Cutoff = cutoff or TopK(k=3)
        self._folder = Path(folder).expanduser()
        _refuse_several_labels(self._folder)
        self._hash = fingerprint(self._folder)
        self._found: _Loaded | None = None
        self._loading = threading.Lock()
        self._lock = threading.Lock()

    @property
    def identity(self) -> str:
        """Name and hash of the folder."""
        return f"{OF_A_FOLDER}{self._folder.name}@{self._hash}"

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        """Score every passage, in batches of like length.

        Raises:
            WeightsError: The folder is damaged.
        """
        if not sentences:
            return Ranked(np.empty(0, dtype=np.float32))
        loaded = self._load()
        asked, texts = readable(query), [readable(text) for text in sentences]
        encoded = _encode(loaded, asked, texts, loaded.limit)
        lengths = [len(ids) for ids in encoded["input_ids"]]
        scores = np.empty(len(texts), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda place: (lengths[place], place))
        size = _BATCH_ON_GPU if loaded.placement.device.type == "cuda" else _BATCH
        for start in range(0, len(by_length), size):
            places = by_length[start : start + size]
            batch = {name: [values[place] for place in places] for name, values in encoded.items()}
            with self._lock:
                scores[places] = _logits(loaded, batch)
        if not np.isfinite(scores).all():
            raise RankerError(f"ranker {self.identity} gave a score that is no number")
        return Ranked(scores, *_cut(loaded, query, asked, sentences, texts, lengths))

    def _load(self) -> _Loaded:
        with self._loading:
            if self._found is None:
                tokenizer, model = load_classifier(self._folder)
                placement = choose_placement()
                limit = token_limit(tokenizer, model.config, MAX_TOKENS)
                self._found = _Loaded(tokenizer, model.to(placement.device), placement, limit)
            return self._found


def _refuse_several_labels(folder: Path) -> None:
    origin = f"ranker {OF_A_FOLDER}{folder}"
    remedy = "use the folder of a transformers cross-encoder with one logit, such as ms-marco-MiniLM-L12"
    config = read_config(folder, origin, remedy)
    labels = config.get("id2label")
    # A configuration without labels stands for two of them.
    count = len(labels) if isinstance(labels, dict) else config.get("num_labels", 2)
    if count != 1:
        raise RankerError(f"{origin}: it has {plural(count, 'label')}, and a reranker has one; {remedy}")


def _encode(loaded: _Loaded, query: str, texts: Sequence[str], limit: int) -> dict[str, list[list[int]]]:
    options: dict[str, Any] = {"truncation": "longest_first", "max_length": limit}
    return dict(loaded.tokenizer([query] * len(texts), list(texts), **options))


def _logits(loaded: _Loaded, batch: dict[str, list[list[int]]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    import torch

    longest = max(map(len, batch["input_ids"]))
    padding = {"input_ids": loaded.tokenizer.pad_token_id or 0}
    tensors = {
        name: torch.tensor([row + [padding.get(name, 0)] * (longest - len(row)) for row in rows]).to(
            loaded.placement.device
        )
        for name, rows in batch.items()
    }
    with torch.inference_mode(), autocast(loaded.placement.precision, loaded.placement.device):
        logits = loaded.model(**tensors).logits
    return np.asarray(logits[:, 0].float().cpu().numpy(), dtype=np.float32)


def _cut(
    loaded: _Loaded,
    query: str,
    asked: str,
    sentences: Sequence[str],
    texts: Sequence[str],
    lengths: Sequence[int],
) -> tuple[tuple[int, ...], bool]:
    """Which passages were cut, and whether the query was, beside any of them."""
    full = [place for place, length in enumerate(lengths) if length == loaded.limit]
    special = loaded.tokenizer.num_special_tokens_to_add(pair=True)
    room = loaded.limit - special
    own = len(loaded.tokenizer(asked, add_special_tokens=False)["input_ids"])
    options: dict[str, Any] = {"add_special_tokens": False, "truncation": True, "max_length": room + 1}
    passages = loaded.tokenizer([texts[place] for place in full], **options)["input_ids"] if full else []
    whole = {place: len(ids) for place, ids in zip(full, passages, strict=True)}
    cut = [
        place
        for place, text in enumerate(sentences)
        if is_long(text) or whole.get(place, 0) > max(room - own, room // 2)
    ]
    query_cut = is_long(query) or any(own > max(room - size, room - room // 2) for size in whole.values())
    return tuple(cut), query_cut
