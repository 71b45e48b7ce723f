"""Incidents on real brokers, and whether `syncline why` names their true causes: `python -m tests.incidents`."""
