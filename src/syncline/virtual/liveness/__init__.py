"""Liveness while faults last (L9): what struck, what a prober saw, and the rule that judges it."""
