"""Keys to servers: read from environment variables, never shown in addresses or messages."""

from __future__ import annotations

import os

from serving.protocol.addresses import redacted
from serving.protocol.errors import ModelError


def api_key(variable: str) -> str | None:
    """The key in a variable, without the blanks and line breaks that copying leaves around it.

    Raises:
        ModelError: It has a character that no header can hold. The key is not shown.
    """
    key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelError(
            f"{variable} has a blank, a line break or another character in its middle that no key has; set it"
            " anew (it is not shown here)"
        )
    return key or None


def demand_clean(variable: str) -> None:
    """Reject a key with blanks or line breaks that another program would not strip.

    Raises:
        ModelError: It is not clean. The key is not shown.
    """
    if os.environ.get(variable, "") != (api_key(variable) or ""):
        raise ModelError(f"{variable} begins or ends with a blank or a line break; set it anew without")


def check_address(url: str, what: str, variable: str) -> None:
    """Reject an address that contains a secret, which would appear in records, traces and messages.

    Args:
        url: Of a server.
        what: Name of the target, such as `model 'openai:x@...'`, without secrets.
        variable: Where the key belongs.

    Raises:
        ModelError: It holds a user or a password, or a query.
    """
    # Not parsed: even an invalid address may hold a secret.
    if "@" in url:
        raise ModelError(
            f"{redacted(what)}: an address holds no user and no password; leave them out, and put the key"
            f" into {variable}"
        )
    if "?" in url or "#" in url:
        raise ModelError(
            f"{redacted(what)}: an address ends before any ? or #; leave that out, and put a key into"
            f" {variable}"
        )
