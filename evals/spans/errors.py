"""What ends an export of spans."""

from __future__ import annotations


class SpanExportError(Exception):
    """Spans that cannot be made or are not taken: one line with the remedy."""


def require_otel() -> None:
    """Find out early whether spans can be sent.

    Raises:
        SpanExportError: The extra is missing.
    """
    try:
        import opentelemetry.proto.trace.v1.trace_pb2  # noqa: F401
    except ImportError:
        raise SpanExportError("--otlp needs a further package: pip install 'evigraph[otel]'") from None
