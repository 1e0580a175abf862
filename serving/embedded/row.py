"""One sample while it is being decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from serving.embedded.grammar import Grammar
from serving.embedded.request import FinishReason, Request, Sample


class Row:
    """The tokens of a sample, those that the model has not seen yet, and whether it is complete.

    Attributes:
        sample: Index of the sample in its request.
        output: Tokens so far, the end-of-sequence token left out.
        pending: Tokens to feed to the model next.
        guesses: Tokens that may come after them, fed along and kept as far as the model agrees.
        length: Tokens whose keys and values are computed.
        finish_reason: Set once the sample is complete.
    """

    def __init__(
        self,
        request: Request,
        sample: int,
        grammar: Grammar | None,
        limit: int,
        stop_tokens: frozenset[int],
        tokenizer: PreTrainedTokenizerBase,
    ) -> None:
        self.sample = sample
        self.output: list[int] = []
        self.pending: list[int] = []
        self.guesses: list[int] = []
        self.length = 0
        self.finish_reason: FinishReason | None = None
        self._temperature = request.temperature
        self._grammar = grammar
        self._limit = limit
        self._stop_tokens = stop_tokens
        self._tokenizer = tokenizer
        self._generator = sample_generator(request.seed, sample, request.prompt)
        self._allowed: Tensor | None = None
        self._prompt = request.prompt
        self._follows: dict[tuple[int, int], int] = {}
        self._indexed = 0
        self._settle(grammar.take_forced() if grammar is not None else [])

    def guess(self, count: int) -> None:
        """Guess that the text continues as it did after the last place with the same two tokens.

        An answer that is drawn from a note repeats stretches of it (Saxena 2023, prompt lookup decoding).
        What a schema forces is known without guessing, so rows with a grammar guess nothing.
        """
        if self._grammar is not None:
            return
        text = [*self._prompt, *self.output]
        for end in range(max(self._indexed, 2), len(text)):
            self._follows[text[end - 2], text[end - 1]] = end
        self._indexed = len(text)
        start = self._follows.get((text[-2], text[-1])) if len(text) > 1 else None
        room = self._limit - len(self.output) - 1
        self.guesses = [] if start is None else text[start : start + max(0, min(count, room))]

    def advance(self, logits: Tensor) -> None:
        """Choose tokens as long as they are the guessed ones, and one more.

        Args:
            logits: After the last token that is sure and after each guess, shape (1 + guesses, vocabulary),
                float32 on the CPU.
        """
        guesses, self.guesses = self.guesses, []
        for place, after in enumerate(logits):
            self._choose(after)
            if self.finish_reason is not None or place == len(guesses) or self.output[-1] != guesses[place]:
                return
            # Its keys and values are there already.
            self.pending = []
            self.length += 1

    def _choose(self, logits: Tensor) -> None:
        """Choose the next token and take all that follows from it."""
        token = choose_token(logits, self._allowed, self._temperature, self._generator)
        if token in self._stop_tokens:
            self.finish_reason = "stop"
            return
        self._settle([token] if self._grammar is None else self._grammar.take(token))

    def result(self) -> Sample:
        assert self.finish_reason is not None, "the sample is still being decoded"
        text = str(self._tokenizer.decode(self.output, skip_special_tokens=True))
        return Sample(text=text, tokens=tuple(self.output), finish_reason=self.finish_reason)

    def _settle(self, new: Sequence[int]) -> None:
        """Append tokens and see whether they complete the sample."""
        room = self._limit - len(self.output)
        self.pending = list(new[:room])
        self.output += self.pending
        if len(new) > room:
            self.finish_reason = "length"
        elif self._is_whole():
            self.finish_reason = "stop"
        elif len(new) == room:
            self.finish_reason = "length"

    def _is_whole(self) -> bool:
        """Whether only the end can follow. Otherwise looks up allowed tokens."""
        if self._grammar is not None:
            self._allowed = self._grammar.allowed()
            if self._allowed is not None and len(self._allowed) <= len(self._stop_tokens):
                return self._stop_tokens.issuperset(self._allowed.tolist())
        return False


def sample_generator(seed: int, sample: int, prompt: Sequence[int]) -> torch.Generator:
    """Randomness of one sample, whatever else is decoded with it.

    The prompt has its part in it. Without it, a vote and its own reflection would draw the same numbers for
    the same sentences, and so would every case of a batch: reflections would seem to agree with their votes.
    """
    # Hashed, because generators with neighbouring seeds start out alike.
    digest = hashlib.sha256(f"{seed} {sample} {list(prompt)}".encode()).digest()
    generator = torch.Generator()
    generator.manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    return generator


def choose_token(
    logits: Tensor, allowed: Tensor | None, temperature: float, generator: torch.Generator
) -> int:
    """Pick a token.

    Args:
        logits: Of the whole vocabulary, float32 on the CPU.
        allowed: Ids to pick from; None means all.
        temperature: 0 picks the likeliest.
        generator: Of the sample.
    """
    candidates = logits if allowed is None else logits[allowed]
    if temperature <= 0:
        index = int(candidates.argmax())
    else:
        shares = torch.softmax(candidates / temperature, dim=-1)
        index = int(torch.multinomial(shares, 1, generator=generator))
    return index if allowed is None else int(allowed[index])
