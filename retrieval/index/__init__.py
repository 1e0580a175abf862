"""Documents found by the vectors of their texts."""
