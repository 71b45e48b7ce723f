"""A Kafka client for raw record batches: connections, messages, and a cluster that retries."""
