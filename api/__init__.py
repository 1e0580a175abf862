"""The service: cases are submitted over HTTP, and run as ordinary run folders."""
