"""Submissions to ArchEHR-QA and BioASQ: what they say, how they are written, read and checked."""
