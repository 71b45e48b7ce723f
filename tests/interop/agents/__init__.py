"""The Python clients as agents: one process each, driven by JSON lines (see `tests/interop/agent.py`)."""
