"""What connections may take of a broker."""
