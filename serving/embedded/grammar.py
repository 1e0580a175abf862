"""Replies that follow a JSON schema."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
import xgrammar
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from serving.backends.reply_schemas import fixed_layout_grammar
from serving.embedded.request import InvalidSchema

_KEPT = 64


class Grammar:
    """Tokens that a sample may or must continue with."""

    def __init__(
        self,
        matcher: xgrammar.GrammarMatcher,
        tokenizer: PreTrainedTokenizerBase,
        vocabulary: int,
        spellings: Sequence[bytes],
    ) -> None:
        self._matcher = matcher
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._spellings = spellings

    def fork(self) -> Grammar:
        """A copy that goes its own way from here."""
        return Grammar(self._matcher.fork(), self._tokenizer, self._vocabulary, self._spellings)

    def take(self, token: int) -> list[int]:
        """Take a token that `allowed` listed, and everything that can then only come one way.

        In a map of labels all but the first token of each label is forced, so a sentence costs one step
        instead of eight.

        Returns:
            The next tokens. They spell the given one and those it forces, tokenised as one text: a
            choice such as `supp` or `s` is fed the same way then, and a later turn of the conversation,
            which tokenises the whole reply, finds the tokens that were fed.
        """
        self._accept(token)
        forced = self._forced_text()
        if not forced:
            return [token]
        self._matcher.rollback(1)
        chosen = str(self._tokenizer.decode([token]))
        together = self._take_text(chosen + forced)
        if together:
            return self._without_open_end(together, keep=chosen)
        self._accept(token)
        return [token, *self._take_text(forced)]

    def take_forced(self) -> list[int]:
        """Take everything that can only come one way, and return its tokens."""
        return self._without_open_end(self._take_text(self._forced_text()))

    def _without_open_end(self, taken: list[int], keep: str = "") -> list[int]:
        """Take the last token back if a longer one can replace it.

        Of `{"essential": [` and a list to come, tokenizers make ` ["` or ` []`. Fed ` [`, a model would
        believe that neither follows, and a later turn would not find the tokens that were fed.

        Args:
            taken: Tokens that have just been taken.
            keep: Text of the token that was chosen; it is not given back.
        """
        if not taken or len(str(self._tokenizer.decode(taken[:-1]))) < len(keep):
            return taken
        self._matcher.rollback(1)
        last = self._spellings[taken[-1]]
        allowed = self.allowed()
        if allowed is not None and any(
            len(self._spellings[token]) > len(last) and self._spellings[token].startswith(last)
            for token in allowed.tolist()
        ):
            return taken[:-1]
        self._accept(taken[-1])
        return taken

    def allowed(self) -> Tensor | None:
        """Ids of the tokens that may follow; None means all."""
        mask = xgrammar.allocate_token_bitmask(1, self._vocabulary)
        if not self._matcher.fill_next_token_bitmask(mask, 0):
            return None
        bits = np.unpackbits(mask.numpy().view(np.uint8)[0], bitorder="little")
        return torch.from_numpy(np.flatnonzero(bits[: self._vocabulary]))

    def _accept(self, token: int) -> None:
        if not self._matcher.accept_token(token):
            raise AssertionError(f"token {token} is not allowed here")

    def _forced_text(self) -> str:
        try:
            return self._matcher.find_jump_forward_string()
        except UnicodeDecodeError:
            # It ends inside a character, where two possible characters begin with the same byte.
            return ""

    def _take_text(self, text: str) -> list[int]:
        """Take a text that is known to fit; no tokens if its tokenisation does not spell it exactly.

        That happens with tokenizers that put a space before everything, and with half a character.
        """
        tokens = cast("list[int]", self._tokenizer.encode(text, add_special_tokens=False)) if text else []
        for taken, token in enumerate(tokens):
            if not self._matcher.accept_token(token):
                if taken:
                    self._matcher.rollback(taken)
                return []
        return tokens


class GrammarCompiler:
    """Compiles schemas, and remembers the latest."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, vocabulary: int, stop_tokens: Sequence[int]
    ) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        info = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=vocabulary, stop_token_ids=list(stop_tokens)
        )
        self._spellings = info.decoded_vocab
        # Its own cache has no bound by count; a batch brings a schema for each case.
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=2, cache_enabled=False)
        self._compiled: OrderedDict[str, xgrammar.CompiledGrammar] = OrderedDict()

    def start(self, schema: Mapping[str, Any]) -> Grammar:
        """A grammar at its beginning.

        White space is fixed (`{"1": "x", "2": "y"}` on one line): free layout costs a third more tokens.

        Raises:
            InvalidSchema: xgrammar cannot read the schema.
        """
        # Not sorted: the order of the properties is the order in which the reply has to give them.
        text = json.dumps(schema)
        compiled = self._compiled.get(text)
        if compiled is None:
            try:
                compiled = self._compile(schema, text)
            except (RuntimeError, ValueError) as error:
                raise InvalidSchema(f"the reply schema cannot be used: {error}") from error
            self._compiled[text] = compiled
        self._compiled.move_to_end(text)
        while len(self._compiled) > _KEPT:
            self._compiled.popitem(last=False)
        return Grammar(xgrammar.GrammarMatcher(compiled), self._tokenizer, self._vocabulary, self._spellings)

    def _compile(self, schema: Mapping[str, Any], text: str) -> xgrammar.CompiledGrammar:
        """With our own grammar where there is one: xgrammar reads no `uniqueItems`."""
        grammar = fixed_layout_grammar(dict(schema))
        if grammar is not None:
            return self._compiler.compile_grammar(grammar)
        return self._compiler.compile_json_schema(text, any_whitespace=False)
