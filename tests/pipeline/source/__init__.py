"""Tests of the source: options, plans, and queries."""
