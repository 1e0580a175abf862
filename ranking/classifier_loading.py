"""What all sequence classifiers of transformers have in common: a folder, a loader, a limit of tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranking.errors import RankerError
from weights.loading import LOADING, no_progress_bars, stay_offline
from weights.registry import WeightsError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MAX_CHARACTERS = 20_000
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
    with LOADING:
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


def readable(text: str) -> str:
    """The beginning of a text, without lone surrogates, on which tokenizers fail."""
    return text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()


def is_long(text: str) -> bool:
    """Whether `readable` leaves an end out."""
    return len(text) > _MAX_CHARACTERS
