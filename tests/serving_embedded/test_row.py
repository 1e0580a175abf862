from types import SimpleNamespace
from typing import Any

import pytest
import torch

from serving.embedded.request import Request
from serving.embedded.row import Row, choose_token, sample_generator

LOGITS = torch.tensor([0.0, 3.0, 2.0, -1.0])


def test_zero_temperature_takes_the_likeliest_of_the_allowed() -> None:
    assert choose_token(LOGITS, None, 0, sample_generator(0, 0, ())) == 1
    assert choose_token(LOGITS, torch.tensor([0, 2]), 0, sample_generator(0, 0, ())) == 2


def draws(seed: int, sample: int, prompt: tuple[int, ...]) -> tuple[int, ...]:
    generator = sample_generator(seed, sample, prompt)
    return tuple(choose_token(torch.zeros(1000), None, 1, generator) for _ in range(5))


def test_randomness_belongs_to_seed_sample_and_prompt() -> None:
    assert draws(1, 0, (5, 6)) == draws(1, 0, (5, 6))
    assert len({draws(seed, sample, (5, 6)) for seed in range(3) for sample in range(3)}) == 9


def test_a_follow_up_does_not_draw_the_numbers_of_its_beginning() -> None:
    """Else a reflection at even odds would agree with its vote on every sentence."""
    assert draws(1, 0, (5, 6)) != draws(1, 0, (5, 6, 7))


STOP = 9
PROMPT = (1, 2, 3, 4, 5, 6, 2, 3)
# After each token the likeliest one: the text of the prompt again, then another one, then the end.
NEXT = {3: 4, 4: 5, 5: 6, 6: 7, 7: 2, 2: 8, 8: STOP}


def written(*, guesses: int, temperature: float = 0.0, limit: int = 20) -> tuple[list[int], str | None, int]:
    """Tokens, how they ended, and the passes that a model needs which knows `NEXT` alone."""
    request = Request(prompt=PROMPT, temperature=temperature, seed=3)
    tokenizer: Any = SimpleNamespace()
    row = Row(request, 0, None, limit, frozenset({STOP}), tokenizer)
    row.length, row.pending = len(PROMPT) - 1, [PROMPT[-1]]
    passes = 0
    while row.finish_reason is None:
        row.guess(guesses)
        fed = [*row.pending, *row.guesses]
        logits = torch.zeros(len(fed), 10)
        for place, token in enumerate(fed):
            logits[place, NEXT.get(token, STOP)] = 4.0
        row.length, row.pending = row.length + 1, []
        row.advance(logits)
        passes += 1
        assert row.finish_reason or row.length + len(row.pending) == len(PROMPT) + len(row.output)
    return row.output, row.finish_reason, passes


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("limit", [1, 3, 4, 20])
def test_guessing_changes_nothing_that_is_written(temperature: float, limit: int) -> None:
    *plain, _ = written(guesses=0, temperature=temperature, limit=limit)
    for guesses in (1, 2, 7):
        *guessed, _ = written(guesses=guesses, temperature=temperature, limit=limit)
        assert guessed == plain


def test_text_of_the_prompt_takes_fewer_passes() -> None:
    assert written(guesses=0) == ([4, 5, 6, 7, 2, 8], "stop", 7)
    assert written(guesses=7) == ([4, 5, 6, 7, 2, 8], "stop", 4)
