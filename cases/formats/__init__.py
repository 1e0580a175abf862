"""File formats of cases, keys, notes and documents."""
