"""How well sentences are retrieved, as heiDS reports it (ArchEHR-QA 2025, tables 1 and 3)."""
