"""The Spark sink: options, rows to partitions, and deliveries that survive kills."""
