"""What the command line prints and writes, kept word for word."""
