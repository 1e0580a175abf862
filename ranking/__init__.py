"""Scores to selections, and evidence models that can be trained: numpy and torch, no language model asked."""
