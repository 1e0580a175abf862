"""Reports as single HTML files: no scripts, nothing fetched, plots inside."""
