"""Unix domain sockets between brokers of one machine."""
