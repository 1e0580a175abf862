"""A cross-encoder from a folder: a sequence classifier with one logit, such as ms-marco-MiniLM-L12.

Question and passage are one input, so each passage is read with the question in mind; it is the reranker of
Verma et al. 2025, section 3.2.1. Any model of transformers serves that has one label.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cases.texts import plural
from ranking.cutoffs import Cutoff, TopK
from ranking.encoding.device import Placement, autocast, choose_placement, processor
from ranking.errors import RankerError
from ranking.rankers.ranker import Ranked
from weights.loading import is_long, loading_model, readable
from weights.registry import fingerprint

_ENDLESS = 1_000_000
"""Tokenizers without a limit report a number above this."""


def read_config(folder: Path, origin: str, remedy: str) -> Mapping[str, Any]:
    """A model's configuration, without its weights.

    Raises:
        RankerError: There is none.
    """
    path = folder / "config.json"
    if not path.is_file():
        where = "its folder has no config.json" if folder.is_dir() else "folder not found"
        raise RankerError(f"{origin}: {where}; {remedy}")
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RankerError(f"{path}: it is not JSON: {error}") from error
    return content if isinstance(content, dict) else {}


class PairClassifier:
    """A sequence classifier of transformers that reads two texts. Safe to use from several threads.

    Loaded at the first use; one batch runs at a time.
    """

    def __init__(self, folder: Path, most_tokens: int, *, gpu: bool = True) -> None:
        """Name a folder whose configuration was checked.

        Args:
            folder: Of a transformers model, with its config.json, tokenizer and weights.
            most_tokens: Of both texts together; models with fewer positions take those.
            gpu: Whether it may run on one.
        """
        self.hash = fingerprint(folder)
        self._folder, self._most, self._gpu = folder, most_tokens, gpu
        self._loaded: tuple[Any, Any, Placement] | None = None
        self._loading = threading.Lock()
        self._lock = threading.Lock()

    @property
    def tokenizer(self) -> Any:
        return self._load()[0]

    @property
    def limit(self) -> int:
        """Tokens of a pair that fit; some models count two positions more than they can hold."""
        tokenizer, model, _ = self._load()
        limits = [self._most]
        if tokenizer.model_max_length < _ENDLESS:
            limits.append(int(tokenizer.model_max_length))
        positions = getattr(model.config, "max_position_embeddings", None)
        relative = getattr(model.config, "relative_attention", False)
        if isinstance(positions, int) and positions > 0 and not relative:
            padded = getattr(model.config, "model_type", "") in ("roberta", "xlm-roberta", "camembert")
            limits.append(positions - 2 if padded else positions)
        return min(limits)

    @property
    def on_gpu(self) -> bool:
        return self._load()[2].device.type == "cuda"

    def tokenize(self, *texts: Sequence[str], **options: Any) -> dict[str, list[list[int]]]:
        # A tokenizer keeps its truncation inside.
        with self._lock:
            return dict(self.tokenizer(*map(list, texts), **options))

    def logits(self, batch: Mapping[str, Sequence[Sequence[int]]]) -> NDArray[np.float32]:
        """Logits of tokenized pairs, shape (pairs, labels)."""
        import torch

        tokenizer, model, (device, precision) = self._load()
        longest = max(map(len, batch["input_ids"]))
        padding = {"input_ids": tokenizer.pad_token_id or 0}
        tensors = {
            name: torch.tensor([[*row, *[padding.get(name, 0)] * (longest - len(row))] for row in rows]).to(
                device
            )
            for name, rows in batch.items()
        }
        with self._lock, torch.inference_mode(), autocast(precision, device):
            logits = model(**tensors).logits
        return np.asarray(logits.float().cpu().numpy(), dtype=np.float32)

    def _load(self) -> tuple[Any, Any, Placement]:
        with self._loading:
            if self._loaded is None:
                tokenizer, model = _from_folder(self._folder)
                placement = choose_placement() if self._gpu else processor()
                self._loaded = tokenizer, model.to(placement.device), placement
            return self._loaded


def _from_folder(folder: Path) -> tuple[Any, Any]:
    with loading_model(folder, "classifier"):
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True)
        return tokenizer, model.eval()


CLASSIFIER = "classifier"

OF_A_FOLDER = f"{CLASSIFIER}:"
"""Before the folder of a cross-encoder."""

MAX_TOKENS = 512
"""Maximum length of question and passage together; models with fewer positions take those."""

_BATCH = 32
_BATCH_ON_GPU = 256


class SequenceClassifierRanker:
    """Scores are the model's logits. Loaded at the first passage; one batch runs at a time.

    Where question and passage together are too long, the longer one gives way: nearly always the passage.
    """

    def __init__(self, folder: str | Path) -> None:
        """Check the folder.

        Raises:
            RankerError: It holds no model, or one with more than one label.
        """
        self.cutoff: Cutoff = TopK(k=3)
        self._folder = Path(folder).expanduser()
        _refuse_several_labels(self._folder)
        self._classifier = PairClassifier(self._folder, MAX_TOKENS)

    @property
    def identity(self) -> str:
        return f"{OF_A_FOLDER}{self._folder.name}@{self._classifier.hash}"

    def rank(self, query: str, sentences: Sequence[str]) -> Ranked:
        if not sentences:
            return Ranked(np.empty(0, dtype=np.float32))
        asked, texts = readable(query), [readable(text) for text in sentences]
        options: dict[str, Any] = {"truncation": "longest_first", "max_length": self._classifier.limit}
        encoded = self._classifier.tokenize([asked] * len(texts), texts, **options)
        lengths = [len(ids) for ids in encoded["input_ids"]]
        scores = np.empty(len(texts), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda place: (lengths[place], place))
        size = _BATCH_ON_GPU if self._classifier.on_gpu else _BATCH
        for start in range(0, len(by_length), size):
            places = by_length[start : start + size]
            batch = {name: [values[place] for place in places] for name, values in encoded.items()}
            scores[places] = self._classifier.logits(batch)[:, 0]
        if not np.isfinite(scores).all():
            raise RankerError(f"ranker {self.identity} returned NaN or infinity as a score")
        return Ranked(scores, *_cut(self._classifier, query, sentences, lengths))


def _refuse_several_labels(folder: Path) -> None:
    origin = f"ranker {OF_A_FOLDER}{folder}"
    remedy = "use the folder of a transformers cross-encoder with one logit, such as ms-marco-MiniLM-L12"
    config = read_config(folder, origin, remedy)
    labels = config.get("id2label")
    # A configuration without labels has two of them.
    count = len(labels) if isinstance(labels, dict) else config.get("num_labels", 2)
    if count != 1:
        raise RankerError(f"{origin}: it has {plural(count, 'label')}, and a reranker has one; {remedy}")


def _cut(
    classifier: PairClassifier, query: str, sentences: Sequence[str], lengths: Sequence[int]
) -> tuple[tuple[int, ...], bool]:
    """Which passages were truncated, and whether the query was, with any of them."""
    limit = classifier.limit
    full = [place for place, length in enumerate(lengths) if length == limit]
    room = limit - classifier.tokenizer.num_special_tokens_to_add(pair=True)
    own = len(classifier.tokenize([readable(query)], add_special_tokens=False)["input_ids"][0])
    options: dict[str, Any] = {"add_special_tokens": False, "truncation": True, "max_length": room + 1}
    beyond = [readable(sentences[place]) for place in full]
    passages = classifier.tokenize(beyond, **options)["input_ids"] if full else []
    whole = {place: len(ids) for place, ids in zip(full, passages, strict=True)}
    cut = [
        place
        for place, text in enumerate(sentences)
        if is_long(text) or whole.get(place, 0) > max(room - own, room // 2)
    ]
    query_cut = is_long(query) or any(own > max(room - size, room - room // 2) for size in whole.values())
    return tuple(cut), query_cut
