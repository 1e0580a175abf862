"""Requests that a provider answers in batches within a day, for half the price."""
