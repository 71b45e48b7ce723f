"""What modules of the node use of a broker, as protocols."""
