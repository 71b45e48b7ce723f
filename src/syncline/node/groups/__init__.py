"""The group coordinator of one broker: applies core's rules to the partitions of the offsets topic."""
