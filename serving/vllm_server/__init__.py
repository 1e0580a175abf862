"""Starts vLLM as a process of its own: where it is, how it is set up, when it is ready, how it ends."""
