"""The web page over run folders: served on this machine, or as static files."""
