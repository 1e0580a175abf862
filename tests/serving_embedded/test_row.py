import torch

from serving.embedded.row import choose_token, sample_generator

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
