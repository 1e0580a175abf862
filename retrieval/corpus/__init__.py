"""Corpora of published documents on disk."""
