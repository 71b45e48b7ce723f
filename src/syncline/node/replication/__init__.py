"""Following other brokers: fetching the partitions that they lead into this broker's logs."""
