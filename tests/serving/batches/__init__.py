"""Batches of each provider, through its own client, against an emulator on loopback."""
