"""Training of evidence models: recipes, the loop, checkpoints."""
