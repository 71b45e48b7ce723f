"""From the bytes of a connection to a request, and from answers to bytes."""
