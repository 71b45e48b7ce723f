"""A real Burrow beside the brokers, and whether its judgements and ours agree: `python -m tests.burrow`."""
