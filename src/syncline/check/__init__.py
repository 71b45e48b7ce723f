"""Bounded model check: every order of events within bounds, over an abstract model of replication."""
