"""Runs as OpenTelemetry spans, for viewers such as Phoenix, Langfuse and Jaeger."""
