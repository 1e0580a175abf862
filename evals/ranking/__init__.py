"""What is shown of trained rankers."""
