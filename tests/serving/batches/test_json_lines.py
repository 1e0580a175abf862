"""Files of JSON lines, on their way in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from serving.batches.providers.json_lines import file_of, line_of, parsed
from serving.protocol.batch_provider import BatchLimits
from serving.protocol.errors import CallError

VALUES = [{"text": "a\u2028b\x85c\x0cd\r\n\x1ce"}, {"text": "\U0001f48a" * 3}, {}]
CONTENT = b"".join(map(line_of, VALUES))


async def parts(content: bytes, size: int) -> AsyncIterator[bytes]:
    for begin in range(0, len(content), size):
        yield content[begin : begin + size]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_lines_end_at_line_feeds_alone_wherever_parts_end(size: int) -> None:
    assert [one async for one in parsed(parts(CONTENT, size), "it")] == VALUES


async def test_the_last_line_needs_no_end_and_empty_lines_are_passed_over() -> None:
    content = b"\n\n" + CONTENT.removesuffix(b"\n")
    assert [one async for one in parsed(parts(content, 5), "it")] == VALUES


@pytest.mark.parametrize("wrong", [b"no", b"[1]", b'{"a": ', b"7", b"[" * 100_000, b"\xff"])
async def test_what_is_no_object_is_said_at_the_end(wrong: bytes) -> None:
    given = []
    with pytest.raises(CallError, match="line 1 of it is not a JSON object"):
        async for one in parsed(parts(wrong + b"\n" + CONTENT, 9), "it"):
            given.append(one)
    assert given == VALUES


def test_text_is_sent_as_it_is() -> None:
    assert line_of({"a": "é"}) == '{"a":"é"}\n'.encode()
    assert json.loads(line_of({"a": "\ud800"})) == {"a": "?"}


@pytest.mark.parametrize(("requests", "size", "fits"), [(3, 30, True), (2, 30, False), (3, 29, False)])
def test_a_file_holds_what_a_batch_may_hold(requests: int, size: int, fits: bool) -> None:
    lines = [b"123456789\n"] * 3
    limits = BatchLimits(requests, size)
    if fits:
        with file_of(lines, limits) as file:
            assert file.read() == b"".join(lines)
    else:
        with pytest.raises(CallError, match="at most"), file_of(lines, limits):
            pass
