"""The partitions that this broker hosts, and what looks at all of them."""
