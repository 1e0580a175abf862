"""Commands that run cases."""
