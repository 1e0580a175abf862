"""Emulators of the providers' batch services, after their references, each with its own clock."""
