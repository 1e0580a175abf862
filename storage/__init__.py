"""Files on this machine: private, locked, fetched once; YAML and JSON without repeated keys."""
