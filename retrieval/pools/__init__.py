"""Pools of demonstrations: in a folder, or on a Chroma server that several machines share."""
