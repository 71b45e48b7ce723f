"""Real clients and killed leaders, and whether every lag that brokers told was true: `python -m tests.lag_truth`."""
