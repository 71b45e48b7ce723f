"""The group coordinator of one broker: core's rules over the offsets topic's partitions and the event loop."""
