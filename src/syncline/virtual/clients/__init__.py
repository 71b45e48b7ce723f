"""Clients that produce, consume and ask for much while faults strike."""
