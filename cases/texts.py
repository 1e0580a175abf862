"""Texts on their way in and out: cleaned, quoted, digested, and counts in words."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable
from hashlib import blake2b, sha256
from typing import TypeVar

_Item = TypeVar("_Item")

# Control characters could drive a terminal, and bidirectional overrides could hide what a text says. Halves
# of surrogate pairs encode bytes of file names that are not UTF-8, and streams reject them.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Replace unsafe characters in a text for people, whether from a note, a model or a server.

    Line breaks and tabs stay. Terminals, logs, traces and pages show nothing that has not been through this.
    """
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def printable_json(text: str) -> str:
    """JSON whose strings say the same, and which holds nothing that `printable` would replace."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    """Strip `text` and turn every line break in it, with the blanks around it, into one space."""
    return " ".join(filter(None, (line.strip() for line in text.splitlines())))


def hash_order(items: Iterable[_Item], name: Callable[[_Item], str]) -> list[_Item]:
    """Sort by a hash of names, with a seed in them, so that no order of files shifts a sample or a split."""
    return sorted(items, key=lambda item: sha256(name(item).encode()).digest())


def json_sha256(value: object) -> str:
    """SHA-256 of a value as JSON, whatever the order of keys in it."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def hash64(text: str) -> int:
    """64 bits of BLAKE2b; among 20 million texts the chance that any two share one is about 1 in 100,000."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def quoted(value: object) -> str:
    """A path or an id as a word of a command that a message suggests."""
    return shlex.quote(str(value))


def plural(count: int, noun: str) -> str:
    """`1 case`, `2 cases`, `1,234 queries`."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith(("ry", "ty")) else f"{count:,} {noun}s"


def per_time(rate: float, noun: str = "") -> str:
    """A rate per second in the first unit that shows at least one: `2.5 calls/s`, `12 calls/min`, `20/h`."""
    units = {"s": 1, "min": 60, "h": 3600}
    unit = next((unit for unit, seconds in units.items() if rate * seconds >= 1), "h")
    amount = rate * units[unit]
    number = f"{amount:,.0f}" if amount >= 10 else f"{amount:.1f}".removesuffix(".0")
    return f"{number} {noun}{'s' * (number != '1')}/{unit}" if noun else f"{number}/{unit}"
