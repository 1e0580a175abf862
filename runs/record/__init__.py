"""The run folder: its files, what they hold, and their readers."""
