"""What a run keeps in a PostgreSQL database; needs `evigraph[postgresql]`."""
