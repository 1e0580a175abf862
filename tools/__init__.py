"""Programs that look for faults for as long as they are given: kills, corruptions, hostile inputs."""
