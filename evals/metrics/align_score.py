"""AlignScore in its mode `nli_sp`: how far a reference supports each sentence of a prediction.

Zha et al., "AlignScore: Evaluating Factual Consistency with A Unified Alignment Function", ACL 2023. The
reference is github.com/yuh-zha/AlignScore at a0936d5 with `AlignScore-base.ckpt` over roberta-base; the
official scorers give the reference as context and the prediction as claim.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

SplitSentences = Callable[[str], list[str]]

_BATCH = 8
_CHUNK_WORDS = 350
_ALIGNED = 0
"""Column of the three-way head: aligned, neutral, contradicting."""

_REMEDY = "Give AlignScore-base.ckpt as published"
_RESAVE = (
    "If you trust the file, save its weights alone: python -c \"import torch; torch.save({'state_dict': "
    "torch.load('IN', map_location='cpu', weights_only=False)['state_dict']}, 'OUT')\""
)


class AlignScore:
    """Probability that the context supports a sentence of the claim, 0 to 1.

    Of the best chunk of the context for each sentence; the mean over the sentences of the claim. A prediction
    without a sentence scores 0; the reference implementation fails on it.
    """

    names = ("alignscore",)
    spread = False

    def __init__(self, checkpoint: Path, backbone: Path, split_sentences: SplitSentences) -> None:
        """Load the trained weights; of the backbone only the configuration and the tokenizer are read.

        On CUDA where there is one, in float32.

        Args:
            checkpoint: `AlignScore-base.ckpt`, or a file with the same `state_dict`.
            backbone: A folder of roberta-base.
            split_sentences: `punkt_sentences` for the official scores.

        Raises:
            InputError: the checkpoint cannot be read, or is not one of this backbone.
        """
        import torch

        with loading(backbone):
            from torch import nn
            from transformers import AutoTokenizer, RobertaConfig, RobertaModel

            config = RobertaConfig.from_pretrained(backbone, local_files_only=True)
            self._tokenizer: Any = AutoTokenizer.from_pretrained(backbone, local_files_only=True)
        weights = _read_weights(checkpoint)
        encoder = RobertaModel(config)  # type: ignore[no-untyped-call]
        head = nn.Linear(config.hidden_size, 3)
        _fill(encoder, weights, "base_model.", checkpoint)
        _fill(head, weights, "tri_layer.", checkpoint)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._encoder = nn.Module.to(encoder, self._device)
        self._head = nn.Module.to(head, self._device)
        nn.Module.eval(self._encoder)
        # RoBERTa's positions are counted from 2.
        self._longest = min(int(self._tokenizer.model_max_length), config.max_position_embeddings - 2)
        self._split = split_sentences

    def score(self, pairs: Sequence[TextPair]) -> list[tuple[float, ...]]:
        """Score each pair, the reference as context and the prediction as claim."""
        return [(self._support(pair.reference, pair.prediction),) for pair in pairs]

    def _support(self, context: str, claim: str) -> float:
        chunks, sentences = context_chunks(context, self._split), self._split(claim)
        if not sentences:
            return 0.0
        product = [(chunk, sentence) for chunk in chunks for sentence in sentences]
        aligned = self._aligned(product).view(len(chunks), len(sentences))
        return float(aligned.amax(dim=0).mean())

    def _aligned(self, texts: Sequence[tuple[str, str]]) -> Tensor:
        """Probability of each (chunk, sentence) that the chunk supports the sentence, (texts,)."""
        import torch

        parts = []
        for start in range(0, len(texts), _BATCH):
            chunks, sentences = zip(*texts[start : start + _BATCH], strict=True)
            encoded = self._encode(list(chunks), list(sentences)).to(self._device)
            with torch.inference_mode():
                pooled = self._encoder(
                    encoded["input_ids"], attention_mask=encoded["attention_mask"]
                ).pooler_output
                parts.append(self._head(pooled).softmax(dim=-1)[:, _ALIGNED].cpu())
        return torch.cat(parts)

    def _encode(self, chunks: list[str], sentences: list[str]) -> Any:
        # Padded to the longest and not to 512 as in the reference implementation: attention is masked, so
        # that only rounding differs, and most of its time went into padding.
        options = {"padding": True, "max_length": self._longest, "return_tensors": "pt"}
        try:
            return self._tokenizer(chunks, sentences, truncation="only_first", **options)
        except Exception as error:  # the class that the tokenizer raises for a sentence as long as its limit
            if "Truncation error" not in str(error):
                raise
            return self._tokenizer(chunks, sentences, truncation=True, **options)


def context_chunks(context: str, split_sentences: SplitSentences) -> list[str]:
    """Join a context's sentences into chunks of about 350 words.

    Sentences are spread evenly by their number: n = words // 350 + 1 parts, each of max(sentences // n, 1)
    sentences, the rest in one more. A context without a sentence is one empty chunk.
    """
    sentences = split_sentences(context) or [""]
    parts = len(context.split()) // _CHUNK_WORDS + 1
    size = max(len(sentences) // parts, 1)
    return [" ".join(sentences[start : start + size]) for start in range(0, len(sentences), size)]


def punkt_sentences() -> SplitSentences | None:
    """NLTK's sentence splitter for English, or None where its data `punkt_tab` is not on this machine.

    NLTK looks into the folders of NLTK_DATA, the home folder and the system; nothing is downloaded.
    """
    from nltk.tokenize.punkt import PunktTokenizer

    try:
        tokenizer = PunktTokenizer("english")
    except LookupError:
        return None
    split: SplitSentences = tokenizer.tokenize
    return split


def _read_weights(checkpoint: Path) -> Mapping[str, Tensor]:
    """The `state_dict` of a checkpoint of PyTorch Lightning.

    A checkpoint is a pickle, which can run any code when it is read. Only tensors and plain containers are
    let in, so that the file need not be trusted.
    """
    import torch

    try:
        content = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            checkpoint, "holds Python objects other than tensors, or is damaged", _RESAVE
        ) from error
    except (OSError, RuntimeError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(checkpoint, f"cannot be read as a checkpoint: {reason}", _REMEDY) from error
    weights = content.get("state_dict") if isinstance(content, dict) else None
    if not isinstance(weights, dict):
        raise InputError(checkpoint, "no state_dict in it", _REMEDY)
    return weights


def _fill(module: Any, weights: Mapping[str, Tensor], prefix: str, checkpoint: Path) -> None:
    own = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
    try:
        missing = module.load_state_dict(own, strict=False).missing_keys
    except RuntimeError as error:
        fault = f"its {prefix}* are of another size than the backbone's"
        raise InputError(checkpoint, fault, "Give roberta-base as the backbone of AlignScore-base") from error
    if missing:
        raise InputError(checkpoint, f"no {prefix}{missing[0]} in it", _REMEDY)


def _load(resources: MetricResources) -> Iterator[Loaded]:
    checkpoint, backbone = resources.get("alignscore"), resources.get("alignscore_backbone")
    if checkpoint is not None and not checkpoint.is_file():
        raise InputError(checkpoint, "no such file", "Give AlignScore-base.ckpt, of yzha/AlignScore")
    if backbone is not None:
        check_model_folder(backbone, "roberta", "roberta-base")
    if checkpoint is None or backbone is None:
        reason = "needs --alignscore FILE (AlignScore-base.ckpt) and --alignscore-backbone DIR (roberta-base)"
        yield NotComputed(AlignScore.names, reason)
    elif missing := missing_packages("torch", "transformers"):
        yield NotComputed(AlignScore.names, missing)
    elif (split := punkt_sentences()) is None:
        reason = "needs NLTK's punkt_tab in a folder of NLTK_DATA: python -m nltk.downloader punkt_tab"
        yield NotComputed(AlignScore.names, reason)
    else:
        yield AlignScore(checkpoint, backbone, split)


METRIC = MetricSpec(
    names=AlignScore.names,
    columns={"alignscore": "AlignScore"},
    tasks=TEXT_TASKS,
    load=_load,
    resources={
        "alignscore": "The file AlignScore-base.ckpt.",
        "alignscore_backbone": "Folder with the configuration and the tokenizer of roberta-base.",
    },
)
