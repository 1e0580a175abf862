"""Scores of rankings of sentences."""
