"""What a recipe can set for retrieval from the note and for citations (heiDS at ArchEHR-QA 2025)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RetrievalSettings(_Section):
    """Which sentences of the note are found for a query."""


class CitationSettings(_Section):
    """How sentences of an answer come to their citations."""
