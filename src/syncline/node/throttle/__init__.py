"""What replication may take of this broker: quotas, lists of throttled replicas, and the throttles of moves."""
