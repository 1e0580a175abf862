"""Conversations as the token ids that a model expects."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from weights.loading import LOADING, stay_offline

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ChatTurn = Mapping[str, str]
"""`role` and `content`, as chat templates take them."""

_EDGES = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)


class ChatFormat:
    """A tokenizer with its chat template. Safe to use from several threads."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._lock = threading.Lock()
        control = sorted(_control_strings(tokenizer), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, control))) if control else None

    def encode(self, turns: Sequence[ChatTurn]) -> list[int]:
        """Token ids of a conversation up to where the model has to go on."""
        safe = [{"role": turn["role"], "content": self.defuse(turn["content"])} for turn in turns]
        # Fast tokenizers fail with "Already borrowed" when two threads use one.
        with self._lock:
            text = self.tokenizer.apply_chat_template(safe, tokenize=False, add_generation_prompt=True)
            return cast("list[int]", self.tokenizer.encode(cast(str, text), add_special_tokens=False))

    def defuse(self, content: str) -> str:
        """Keep text from being read as control tokens: `<|im_end|>` becomes `<| im_end |>`.

        Contents come from case files. A note that holds such a string, by accident or not, could end its
        own turn and speak as another role. Spaces keep it readable and, unlike invisible characters,
        cannot be mistaken for the original.
        """
        if self._control is None:
            return content
        return self._control.sub(lambda found: _spread(found.group()), content)


def chat_format(folder: Path) -> ChatFormat:
    """The format of a model folder, loaded once in a process."""
    with LOADING:
        return _load(folder)


@lru_cache(maxsize=8)
def _load(folder: Path) -> ChatFormat:
    stay_offline()
    from transformers import AutoTokenizer

    return ChatFormat(AutoTokenizer.from_pretrained(folder, local_files_only=True))


def _control_strings(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """Strings that the tokenizer reads as one special token.

    Added tokens that are not special count where they look like a tag, such as `<think>`; others are
    ordinary text, for example runs of spaces.
    """
    return {
        token.content
        for token in tokenizer.added_tokens_decoder.values()
        if token.special or (token.content.startswith("<") and token.content.endswith(">"))
    }


def _spread(control: str) -> str:
    match = _EDGES.fullmatch(control)
    if match is None or not match[2]:
        return " ".join(control)
    return f"{match[1]} {match[2]} {match[3]}".strip()
