"""Common parts of nodes: specification, context, records, fitting of prompts."""
