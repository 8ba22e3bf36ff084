"""What to do next: one step from one observation, total and deterministic. Pure."""
