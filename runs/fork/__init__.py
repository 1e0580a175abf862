"""Forks: one case again from one of its nodes."""
