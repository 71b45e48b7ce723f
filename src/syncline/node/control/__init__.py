"""Requests to one broker outside Kafka's protocol, for tools on its machine."""
