"""The tool that compares texts by meaning."""

from __future__ import annotations

from nodes.core.context import Tool
from ranking.vectors import TextVectors

VECTORS: Tool[TextVectors] = Tool("vectors")
"""Compares sentences by meaning."""
