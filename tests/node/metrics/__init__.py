"""Metrics: names as Kafka's exporter gives them, values as the broker's state has them, and the endpoint's manners."""
