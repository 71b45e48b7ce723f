"""The simulated network between hosts."""
