"""The chat model that runs inside this process."""
