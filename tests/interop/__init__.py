"""Real clients, unmodified, against three real broker processes."""
