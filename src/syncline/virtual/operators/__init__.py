"""Operators who move and throttle replicas while faults strike."""
