"""Syncline: a Kafka-compatible replicated log whose replication can be seen, proved and tuned."""

__version__ = "0.1.0"
