"""Training methods, task heads and trainers."""
