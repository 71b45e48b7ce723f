"""The simulated disk of a host."""
