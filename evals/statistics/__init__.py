"""Intervals and tests for scores that are made of cases."""
