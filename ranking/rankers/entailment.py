"""A cross-encoder that was trained on natural language inference, as a reader of evidence.

Vladika and Matthes 2024 use DeBERTa-v3-large of Laurer et al. 2024, which is not packaged. Any sequence
classifier of transformers serves whose three labels are named entailment, neutral and contradiction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.errors import RankerError
from ranking.rankers.sequence_classifier import PairClassifier, read_config
from weights.loading import is_long, readable

InputForm = Literal["clean", "released"]
"""How a model is given its two texts.

`clean`: the text is the premise, the question the hypothesis. `released`: one text, `question [SEP] text`, as
in the released code of Vladika and Matthes 2024.
"""

Verdicts = NDArray[np.float64]
"""Probabilities of supports, neutral and refutes, shape (texts, 3); each row sums to 1."""


class Judged(NamedTuple):
    """Judgements of a model on some texts.

    Attributes:
        verdicts: A row for every text.
        cut: Which texts were read only in their beginning, shape (texts,).
    """

    verdicts: Verdicts
    cut: NDArray[np.bool_]


class EntailmentModel(Protocol):
    """A model trained on natural language inference. Safe to use from several threads."""

    @property
    def identity(self) -> str: ...

    def judge(self, question: str, texts: Sequence[str]) -> Judged: ...


MAX_TOKENS = 1024
"""Maximum length of question and passage together, as in the released code.

Models with fewer positions take those.
"""

_BATCH = 8

_NAMES = ("entailment", "neutral", "contradiction")
"""In the order of supports, neutral, refutes."""


def label_order(id2label: Mapping[Any, Any], origin: str) -> tuple[int, int, int]:
    """Columns of a model's scores for entailment, neutral and contradiction.

    Raises:
        RankerError: It has other labels.
    """
    places = {str(name).strip().lower(): int(place) for place, name in id2label.items()}
    if set(places) != set(_NAMES) or len(id2label) != len(_NAMES):
        found = ", ".join(sorted(str(name) for name in id2label.values())[:6])
        raise RankerError(
            f"reader {origin}: its labels are {found}, not {', '.join(_NAMES)}; use a classifier for natural"
            " language inference, and name its labels in id2label of config.json"
        )
    entailment, neutral, contradiction = (places[name] for name in _NAMES)
    return entailment, neutral, contradiction


class EntailmentReader:
    """A classifier from a folder, on the processor. Loaded at the first question."""

    def __init__(self, folder: str | Path, form: InputForm = "clean") -> None:
        """Check the folder.

        Raises:
            RankerError: It holds no model, or one with other labels.
        """
        self._folder = Path(folder).expanduser()
        self._form = form
        remedy = "use llm, or the folder of a transformers model for natural language inference"
        labels = read_config(self._folder, f"reader {str(self._folder)!r}", remedy).get("id2label")
        self._order = label_order(labels if isinstance(labels, dict) else {}, str(self._folder))
        self._classifier = PairClassifier(self._folder, MAX_TOKENS, gpu=False)

    @property
    def identity(self) -> str:
        """Name and hash of the folder, and the form of its input, which affects scores."""
        return f"{self._folder.name}@{self._classifier.hash}/{self._form}"

    def judge(self, question: str, texts: Sequence[str]) -> Judged:
        verdicts = np.zeros((len(texts), len(_NAMES)), dtype=np.float64)
        cut = np.zeros(len(texts), dtype=np.bool_)
        by_length = sorted(range(len(texts)), key=lambda place: (len(texts[place]), place))
        for start in range(0, len(by_length), _BATCH):
            places = by_length[start : start + _BATCH]
            verdicts[places], cut[places] = self._run(question, [texts[place] for place in places])
        return Judged(verdicts, cut)

    def _run(self, question: str, texts: Sequence[str]) -> Judged:
        import torch

        limit = self._classifier.limit
        logits = torch.from_numpy(self._classifier.logits(self._encode(question, texts, limit)))
        shares = torch.softmax(logits, dim=-1).double().numpy()[:, list(self._order)]
        longer = self._encode(question, texts, limit + 1)["input_ids"]
        cut = [is_long(text) or len(ids) > limit for text, ids in zip(texts, longer, strict=True)]
        return Judged(shares, np.array(cut, dtype=np.bool_))

    def _encode(self, question: str, texts: Sequence[str], limit: int) -> dict[str, list[list[int]]]:
        asked, shown = readable(question), [readable(text) for text in texts]
        if self._form == "released":
            joined = [f"{asked} {self._classifier.tokenizer.sep_token or ''} {text}" for text in shown]
            return self._classifier.tokenize(joined, truncation=True, max_length=limit)
        # Truncate the longer one: nearly always the passage, but a page-long question should not fail.
        options: dict[str, Any] = {"truncation": "longest_first", "max_length": limit}
        return self._classifier.tokenize(shown, [asked] * len(shown), **options)
