"""Pools of demonstrations, each in a folder."""
