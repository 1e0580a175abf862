"""Questions: interpretation, intent, type, further queries."""
