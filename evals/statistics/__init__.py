"""Intervals and tests for scores over cases."""
