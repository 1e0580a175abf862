"""Rules and thresholds chosen on labelled cases, and their performance on others."""
