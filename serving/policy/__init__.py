"""Allowed destinations of case text: data policies, the gate, addresses, keys, object storage."""
