"""The tables of a shared run by revision; alembic runs them in order."""
