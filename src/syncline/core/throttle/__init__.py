"""Throttled replication: how fast moved data may be sent and received, and which replicas that concerns (KIP-73)."""
