"""The lab: histories on real brokers come out as they must, and leave nothing behind."""
