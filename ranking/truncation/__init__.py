"""How many of a ranking to keep, from its scores alone (heiDS at ArchEHR-QA 2025, section 2.3)."""
