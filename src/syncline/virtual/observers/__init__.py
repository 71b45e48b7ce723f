"""What watches brokers during a run, without changing it."""
