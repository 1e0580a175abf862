"""Models of metrics: folders that the user has, checked before anything heavy is imported."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cases.errors import InputError
from cases.files import opened

_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json")


def check_model_folder(folder: Path, model_type: str, name: str) -> None:
    """See that a folder holds the configuration and the tokenizer of a model.

    Args:
        folder: As `save_pretrained` or `hf download` lays it out.
        model_type: What its config.json has to say, such as `distilbert`.
        name: The model that the metric is defined with, for the remedy.

    Raises:
        InputError: a part is missing, or the model is of another type.
    """
    remedy = f"Give a folder with {name}, such as `hf download {name} --local-dir DIR` makes"
    if not folder.is_dir():
        raise InputError(folder, "no such folder", remedy)
    with opened(folder / "config.json") as file:
        try:
            config = json.load(file)
        except ValueError as error:
            raise InputError(folder / "config.json", "not JSON", remedy) from error
    found = config.get("model_type") if isinstance(config, dict) else None
    if found != model_type:
        raise InputError(folder / "config.json", f"model_type is {found!r} and not {model_type!r}", remedy)
    if not any((folder / file).is_file() for file in _TOKENIZERS):
        raise InputError(folder, f"none of {', '.join(_TOKENIZERS)} in it", remedy)


@contextmanager
def loading(folder: Path) -> Iterator[None]:
    """Load a model offline and without noise, and name its folder where that fails.

    The noise is a bar, and a report of the heads that a metric has no use for.

    Raises:
        InputError: something in the folder cannot be read.
    """
    from weights.loading import no_progress_bars, stay_offline

    stay_offline()
    from safetensors import SafetensorError
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity(logging.ERROR)
    try:
        with no_progress_bars():
            yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(folder, f"cannot be loaded: {reason}", "Fetch the model again") from error
    finally:
        transformers_logging.set_verbosity(verbosity)
