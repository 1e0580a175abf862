"""JSON objects that carry a checksum of themselves as their last field, so that damage on disk is noticed.

The checksum is the CRC-32 of the object's bytes without that field. Any reader of JSON reads such an object.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import orjson

_CHECKSUM = "crc32"

_LINE = re.compile(rb', "crc32": "([0-9a-f]{8})"\}\Z')
_DOCUMENT = re.compile(rb',\n  "crc32": "([0-9a-f]{8})"\n\}\n\Z')


class Damaged(Exception):
    """Bytes differ from the written content; the message says how."""


def seal_line(body: bytes) -> bytes:
    """An object on one line, without its end of line, with its checksum.

    `body` is as `json.dumps` writes a dict that is not empty.
    """
    return b'%s, "crc32": "%08x"}' % (body[:-1], zlib.crc32(body))


def seal_document(body: bytes) -> bytes:
    """An object over several lines, indented by two and ended by a newline, with its checksum."""
    return b'%s,\n  "crc32": "%08x"\n}\n' % (body[: -len(b"\n}\n")], zlib.crc32(body))


def open_line(line: bytes, *, sealed: bool) -> dict[str, Any]:
    """The object on a line, without its checksum.

    Lines of earlier versions have no checksum: `sealed` demands one.

    Raises:
        Damaged: It is not an object, or its seal does not match.
    """
    return _opened(line.removesuffix(b"\n"), _LINE, b"}", sealed=sealed)


def open_document(text: bytes, *, sealed: bool = False) -> dict[str, Any]:
    """The object in a file, without its checksum.

    Files of earlier versions have no checksum: `sealed` demands one.

    Raises:
        Damaged: It is not an object, or its seal does not match.
    """
    return _opened(text, _DOCUMENT, b"\n}\n", sealed=sealed)


def _opened(raw: bytes, seal: re.Pattern[bytes], end: bytes, *, sealed: bool) -> dict[str, Any]:
    found = seal.search(raw[-40:])
    if found is not None:
        # The pattern ends where the bytes end, so its length is where the seal begins.
        raw = raw[: -len(found[0])] + end
        if zlib.crc32(raw) != int(found[1], 16):
            raise Damaged("its checksum does not match")
    elif not raw.strip():
        raise Damaged("it is empty")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Damaged(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Damaged(f"it is a JSON {type(value).__name__} where an object belongs")
    if found is None and (sealed or _CHECKSUM in value):
        raise Damaged("its checksum is missing or damaged")
    return value
