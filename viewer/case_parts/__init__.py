"""Parts of the page of a case, made from a run's records by pure functions."""
