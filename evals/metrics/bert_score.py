"""BERTScore with distilbert-base-uncased, as the official scorers set it up.

Zhang et al., "BERTScore: Evaluating Text Generation with BERT", ICLR 2020. The reference is bert-score 0.3.12
with `num_layers=4, idf=False, rescale_with_baseline=True` in batches of 8. The package itself cannot be used:
its 0.3.13 fails on empty texts with transformers 5, whose tokenizers lack a method that it calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from evals.metrics.text_metric import (
    TEXT_TASKS,
    Loaded,
    MetricResources,
    MetricSpec,
    NotComputed,
    TextPair,
    check_model_folder,
    loading,
    missing_packages,
)
from storage.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

_LAYERS = 4
_BATCH = 8
_BASELINE_F = 0.6014007
"""Row 4, column F of bert-score's `rescale_baseline/en/distilbert-base-uncased.tsv`."""

_Item = TypeVar("_Item")


class BertScore:
    """Greedy matching of contextual embeddings; rescaled F1, at most 1.

    The baseline is the mean raw score of unrelated sentences, so that such a pair scores about 0: below it
    scores are negative, and a pair with an empty text has raw 0, hence -150.88.
    """

    names = ("bertscore",)
    spread = False

    def __init__(self, folder: Path) -> None:
        """Load tokenizer and weights of distilbert-base-uncased from a local folder.

        On CUDA where there is one, in float32.

        Raises:
            InputError: the folder cannot be loaded, or holds fewer weights or layers.
        """
        import torch

        with loading(folder):
            from torch import nn
            from transformers import AutoTokenizer, DistilBertModel

            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            loaded: Any = DistilBertModel.from_pretrained(
                folder, dtype=torch.float32, local_files_only=True, output_loading_info=True
            )
        model, report = loaded
        if report["missing_keys"] or len(model.transformer.layer) < _LAYERS:
            raise InputError(folder, "lacks weights of distilbert-base-uncased", "Fetch the model again")
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # What follows the fourth layer is not read.
        model.transformer.layer = model.transformer.layer[:_LAYERS]
        self._model = nn.Module.to(model, self._device)
        self._longest = min(int(self._tokenizer.model_max_length), int(model.config.max_position_embeddings))

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        """Score each pair; texts are cut to the model's 512 tokens."""
        import torch

        embedded = self._embed({text for pair in pairs for text in (pair.prediction, pair.reference)})
        scores: list[tuple[float, ...]] = []
        for batch in _batches(pairs):
            predictions = [embedded[pair.prediction] for pair in batch]
            references = [embedded[pair.reference] for pair in batch]
            with torch.inference_mode():
                raw = greedy_match(*_padded(predictions), *_padded(references))
            scores += [(value,) for value in ((raw - _BASELINE_F) / (1 - _BASELINE_F)).tolist()]
        return scores

    def _embed(self, texts: set[str]) -> dict[str, tuple[Tensor, Tensor]]:
        """Embeddings (tokens, width) and token weights (tokens,) of each text."""
        import torch

        boundaries = torch.tensor([self._tokenizer.cls_token_id, self._tokenizer.sep_token_id])
        embedded: dict[str, tuple[Tensor, Tensor]] = {}
        for batch in _batches(sorted(texts, key=lambda text: (-len(text.split(" ")), text))):
            encoded = self._tokenizer(
                [text.strip() for text in batch],
                truncation=True,
                max_length=self._longest,
                padding=True,
                return_tensors="pt",
            )
            ids, mask = encoded["input_ids"], encoded["attention_mask"]
            with torch.inference_mode():
                states = self._model(ids.to(self._device), attention_mask=mask.to(self._device))[0].cpu()
            weights = (~torch.isin(ids, boundaries)).float()
            for row, text in enumerate(batch):
                length = int(mask[row].sum())
                embedded[text] = (states[row, :length], weights[row, :length])
        return embedded


def greedy_match(
    predictions: Tensor, prediction_weights: Tensor, references: Tensor, reference_weights: Tensor
) -> Tensor:
    """Raw F1 of each pair of a batch, before rescaling.

    Each token is matched to the most similar one of the other text. A token of weight 0, such as [CLS] and
    [SEP], is a candidate of a match and does not count itself. A text of only such tokens scores 0.

    Embeddings have shape (pairs, tokens, width) and weights, 0 or 1, (pairs, tokens), with zeros behind each
    text; the result has (pairs,).
    """
    from torch.nn.functional import normalize

    # Padding has similarity 0 and is not masked, as in bert-score.
    similarity = normalize(predictions, dim=-1) @ normalize(references, dim=-1).transpose(1, 2)
    precision = _weighted_mean(similarity.amax(dim=2), prediction_weights)
    recall = _weighted_mean(similarity.amax(dim=1), reference_weights)
    return (2 * precision * recall / (precision + recall)).nan_to_num(0.0)


def _weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Over the last dimension; nan where all weights are 0."""
    return (values * weights).sum(dim=1) / weights.sum(dim=1)


def _padded(texts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    from torch.nn.utils.rnn import pad_sequence

    embeddings, weights = zip(*texts, strict=True)
    return pad_sequence(list(embeddings), batch_first=True), pad_sequence(list(weights), batch_first=True)


def _batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def _load(resources: MetricResources) -> Iterator[Loaded]:
    folder = resources.get("bertscore_model")
    if folder is None:
        yield NotComputed(BertScore.names, "needs --bertscore-model DIR (distilbert-base-uncased)")
        return
    check_model_folder(folder, "distilbert", "distilbert-base-uncased")
    missing = missing_packages("torch", "transformers")
    yield NotComputed(BertScore.names, missing) if missing else BertScore(folder)


METRIC = MetricSpec(
    names=BertScore.names,
    columns={"bertscore": "BERTScore"},
    tasks=TEXT_TASKS,
    load=_load,
    resources={"bertscore_model": "Folder with distilbert-base-uncased."},
)
