"""Rules and thresholds chosen on labelled cases, and what they are worth on others."""
