"""Runs as tables: for pandas, Polars, DuckDB or R."""
