"""Estimates of tokens and cost from rehearsed cases."""
