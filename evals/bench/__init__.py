"""Benchmarks: each measures a ratio of two sides within one run, so that load on the machine hits both."""
