"""What is asked: interpretation, intent, type, further queries."""
