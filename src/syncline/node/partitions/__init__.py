"""The partitions that this broker hosts, and the checks that look at all of them."""
