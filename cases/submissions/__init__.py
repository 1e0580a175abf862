"""Submissions to ArchEHR-QA and BioASQ: content, writing, reading, checks."""
