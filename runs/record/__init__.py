"""The run folder: its files, their content, and their readers."""
