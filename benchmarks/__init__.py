"""Measurements of Syncline and Apache Kafka in one run, alternating: the claims of docs/performance.md."""
