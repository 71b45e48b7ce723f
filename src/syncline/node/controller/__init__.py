"""The active controller, and the way of every broker to it."""
