"""Models that run inside this process: a small chat model and a sentence embedder."""
