"""Writing to the end of a log, and syncing it."""
