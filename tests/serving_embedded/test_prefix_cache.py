import torch
from torch import Tensor

from serving.embedded.prefix_cache import BLOCK, PrefixCache


def _read(start: int, end: int) -> Tensor:
    return torch.arange(start, end, dtype=torch.float32).reshape(1, 1, -1, 1, 1)


def test_a_shared_beginning_is_found_in_whole_blocks() -> None:
    cache = PrefixCache(1000)
    tokens = list(range(3 * BLOCK + 5))
    cache.add(tokens, _read)
    assert len(cache) == 3 * BLOCK
    assert cache.match([*tokens[: 2 * BLOCK + 3], 9999, 9999]) == 2 * BLOCK
    assert cache.match([9999, *tokens]) == 0


def test_the_last_token_is_always_left_over() -> None:
    cache = PrefixCache(1000)
    tokens = list(range(2 * BLOCK))
    cache.add(tokens, _read)
    assert cache.match(tokens) == BLOCK
    assert cache.match([*tokens, 1]) == 2 * BLOCK


def test_what_is_loaded_is_what_was_read() -> None:
    cache = PrefixCache(1000)
    tokens = list(range(3 * BLOCK))
    cache.add(tokens, _read)
    assert cache.load(tokens, 2 * BLOCK).flatten().tolist() == list(range(2 * BLOCK))


def test_sequences_share_the_blocks_of_their_beginning() -> None:
    cache = PrefixCache(1000)
    beginning = list(range(2 * BLOCK))
    cache.add([*beginning, *[1] * BLOCK], _read)
    cache.add([*beginning, *[2] * BLOCK], _read)
    assert len(cache) == 4 * BLOCK


def test_the_longest_unused_end_is_dropped_first() -> None:
    cache = PrefixCache(4 * BLOCK)
    old, new = [1] * (3 * BLOCK), [2] * (2 * BLOCK)
    cache.add(old, _read)
    cache.add(new, _read)
    assert len(cache) == 4 * BLOCK
    assert cache.match([*new, 0]) == 2 * BLOCK
    assert cache.match([*old, 0]) == 2 * BLOCK


def test_a_sequence_longer_than_the_bound_keeps_its_beginning() -> None:
    cache = PrefixCache(2 * BLOCK)
    cache.add([1] * (5 * BLOCK), _read)
    assert cache.match([1] * (5 * BLOCK)) == 2 * BLOCK
