"""What ends an export of spans."""

from __future__ import annotations


class SpanExportError(Exception):
    """Spans that cannot be made or are not taken: one line with the remedy."""
