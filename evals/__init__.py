"""Metrics and benchmarks over finished runs."""
