"""Metrics: names as in Kafka's exporter, values from the broker's state, and the behaviour of the endpoint."""
