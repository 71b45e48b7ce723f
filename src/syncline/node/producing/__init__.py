"""Produce requests: the checks of a batch, its append, and the wait for the answer."""
