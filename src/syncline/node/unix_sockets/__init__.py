"""Unix domain sockets between the brokers of one machine, over which records go without being copied."""
