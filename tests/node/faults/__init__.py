"""Injected faults."""
