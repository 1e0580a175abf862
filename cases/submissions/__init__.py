"""Submissions to ArchEHR-QA 2025 and 2026: what they say, how they are written, read and checked."""
