"""What the page of a case shows, each part made of a run's records by pure functions."""
