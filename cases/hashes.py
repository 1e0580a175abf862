"""Short digests that stand for ids and words where millions of them must not lie in memory."""

from __future__ import annotations

from hashlib import blake2b


def hash64(text: str) -> int:
    """64 bits of BLAKE2b; among 20 million texts the chance that any two share one is about 1 in 100,000."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")
