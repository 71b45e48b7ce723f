"""Frames, headers and messages of the Kafka protocol, as bytes; no sockets."""
