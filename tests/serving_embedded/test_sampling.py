import torch

from serving.embedded.sampling import choose_token, sample_generator

LOGITS = torch.tensor([0.0, 3.0, 2.0, -1.0])


def test_zero_temperature_takes_the_likeliest_of_the_allowed() -> None:
    assert choose_token(LOGITS, None, 0, 1, sample_generator(0, 0)) == 1
    assert choose_token(LOGITS, torch.tensor([0, 2]), 0, 1, sample_generator(0, 0)) == 2


def test_only_allowed_tokens_are_sampled() -> None:
    generator = sample_generator(0, 0)
    drawn = {choose_token(LOGITS, torch.tensor([0, 3]), 5, 1, generator) for _ in range(50)}
    assert drawn == {0, 3}


def test_top_p_keeps_the_likeliest_and_always_one() -> None:
    generator = sample_generator(0, 0)
    assert {choose_token(LOGITS, None, 1, 0.01, generator) for _ in range(20)} == {1}
    assert {choose_token(LOGITS, None, 1, 0.9, generator) for _ in range(50)} == {1, 2}


def test_randomness_belongs_to_seed_and_sample() -> None:
    def draws(seed: int, sample: int) -> list[int]:
        generator = sample_generator(seed, sample)
        return [choose_token(torch.zeros(1000), None, 1, 1, generator) for _ in range(5)]

    assert draws(1, 0) == draws(1, 0)
    assert len({tuple(draws(seed, sample)) for seed in range(3) for sample in range(3)}) == 9
