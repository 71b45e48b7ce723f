"""What connections may take of a broker: memory, places, and time without a request."""
