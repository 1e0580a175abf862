"""Where case text may go: data policies, the gate, addresses, keys, object storage."""
