"""The rules of replication, groups and cluster state: pure functions and state machines."""
