"""State and wiring: one file a system; recipes."""
