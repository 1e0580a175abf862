"""From token states to one vector of a text, as the files of sentence-transformers say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

from weights.registry import WeightsError

PoolingMode = Literal["mean", "cls"]

_POOLING = "1_Pooling/config.json"
_MODULES = "modules.json"
_LIMIT = "sentence_bert_config.json"
_FLAG = "pooling_mode_"
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_MAX_TOKENS = 512


class SentenceEncoding(NamedTuple):
    """What a folder says of its sentence vectors.

    Attributes:
        mode: Mean over the token states, or the state of the first token.
        max_tokens: Longer texts are cut.
    """

    mode: PoolingMode
    max_tokens: int


def read_sentence_encoding(folder: Path) -> SentenceEncoding:
    """Mean over at most 512 tokens, unless the folder's files of sentence-transformers say otherwise.

    Raises:
        WeightsError: A file is damaged, or asks for what is not done here: another way of pooling, or further
            layers behind it.
    """
    for module in _json(folder / _MODULES, []):
        kind = str(module.get("type", "") if isinstance(module, dict) else module).rpartition(".")[2]
        if kind not in _KNOWN_MODULES:
            known = ", ".join(_KNOWN_MODULES)
            raise WeightsError(
                f"{folder / _MODULES}: module {kind!r} is not supported; supported are {known}"
            )
    limit = _fields(folder / _LIMIT).get("max_seq_length")
    most = limit if isinstance(limit, int) and 2 < limit < _MAX_TOKENS else _MAX_TOKENS
    return SentenceEncoding(_mode(folder / _POOLING), most)


def _mode(path: Path) -> PoolingMode:
    """Newer files name the mode, older ones have a flag for each."""
    fields = _fields(path)
    named = fields.get("pooling_mode")
    if named is None:
        named = [name for name, on in fields.items() if name.startswith(_FLAG) and on is True]
    modes = [str(named)] if isinstance(named, str) else [str(mode) for mode in named]
    match modes:
        case [] | ["mean"] | ["pooling_mode_mean_tokens"]:
            return "mean"
        case ["cls"] | ["pooling_mode_cls_token"]:
            return "cls"
        case _:
            asked = ", ".join(modes)
            raise WeightsError(f"{path}: pooling {asked} is not supported; supported are mean and cls")


def _fields(path: Path) -> dict[str, Any]:
    found = _json(path, {})
    if not isinstance(found, dict):
        raise WeightsError(f"{path}: is no JSON object")
    return found


def _json(path: Path, missing: Any) -> Any:
    if not path.is_file():
        return missing
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{path}: it is no JSON: {error}") from error
