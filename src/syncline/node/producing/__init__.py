"""Produce requests until their answer."""
