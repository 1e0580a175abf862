"""Submissions to the phases of BioASQ's task b: what they say, how they are written, read and checked."""
