"""The active controller, and its private messages with the brokers."""
