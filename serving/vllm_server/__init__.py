"""Starts vLLM as a separate process: finding, configuration, readiness, shutdown."""
