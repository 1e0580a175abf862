"""Sentence vectors: encoders, devices, caches."""
